//! The store: adding, joining, dropping, checking.

use crate::StoreError;
use crate::columns::schema as columns_of;
use crate::error::DamagedFile;
use crate::exits::{ExitWriter, exit_properties, properties};
use crate::location::{READS, StoreLocation, Upload, Uploaded, hash, why};
use crate::log::{self, DataFile, LOG, LogCheck, LogEntry, OldLog, RecordingRow, StoreContents, StoredTrialRow};
use crate::stats_tables::{self, RecordingStats};
use crate::verify::{CHANGED, VerifiedBytes, VerifiedFiles, is_of, of_rows, of_size};
use arrow_array::{RecordBatch, new_null_array};
use arrow_schema::{ArrowError, FieldRef, SchemaRef};
use bytes::Bytes;
use exitscope_columns::ExitStrings;
use exitscope_model::{Column, Exit, SubjectNames, WhoRow, exit_columns, gang_columns, halt_columns, sum_columns};
use object_store::path::Path;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaDataReader;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The tables, which are the top folders.
pub const TABLES: [&str; 4] = [EXITS, FACTS, HALTS, GANGS];
const EXITS: &str = "exits";
const FACTS: &str = "reason_stats";
const HALTS: &str = "halts";
const GANGS: &str = "gangs";

/// Digits of a name that is a hash.
const ID: usize = 32;

/// Files of more bytes are not joined: they are read into memory for it, and gain nothing.
const LARGE: u64 = 64 << 20;

/// A joined file is of so many bytes, about.
const JOINED: u64 = 256 << 20;

/// Bytes at the end of a file that are read first: what describes most files is shorter.
const TAIL: u64 = 16 << 10;

/// Entries of the log after which one is written that says everything.
const ENTRIES: u64 = 64;

/// How often an entry is tried again because others had written theirs.
const TRIES: u32 = 100;

/// A store.
#[derive(Debug)]
pub struct Store {
    place: StoreLocation,
}

/// What became of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddOutcome {
    /// It is in the store now, in so many bytes: of exits, and of sums.
    New {
        /// Of exits.
        exits: u64,
        /// Of sums.
        sums: u64,
    },
    /// It was already.
    Already,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreCheck {
    /// Files that are as the log says.
    pub whole: u64,
    /// Entries of the log that are as they were written.
    pub entries: u64,
    /// Entries that have no hash, as earlier versions wrote them, and can be damaged without anything to tell it by.
    pub unsealed: u64,
    /// Files for which the log has no hash: their rows could be read.
    pub unhashed: u64,
    /// Files and entries that are not.
    pub damaged: Vec<DamagedFile>,
    /// Whether a damaged entry hides which files there are: none of them was checked.
    pub is_log_damaged: bool,
    /// Files of which the log says nothing: foreign ones, those of adds that were stopped, those that were dropped.
    pub unlisted: Vec<String>,
}

/// What joining did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Files that were joined.
    pub before: usize,
    /// Files that there are for them.
    pub after: usize,
    /// Files that are not as the log says, and were left as they are.
    pub damaged: Vec<DamagedFile>,
}

/// How files are checked before they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileCheck {
    /// All their bytes are compared with the log's hashes.
    Hashes,
    /// Only their sizes and ends are looked at: what is damaged elsewhere may be answered.
    Ends,
}

/// What became of some files that were to be joined.
enum Joined {
    Done,
    /// Somebody else joined or dropped them meanwhile, or this version does not know their table.
    Not,
    /// One of them is damaged: nothing was done.
    Damaged(DamagedFile),
}

/// A recording on its way into the store.
pub struct PendingRecording<'a> {
    files: UnlistedFiles<'a>,
    /// The name of its files: nobody else writes them, also of the same recording.
    name: String,
    path: String,
    writer: ExitWriter<Upload>,
}

/// Files that were written and are in no entry of the log: they are removed again when this is dropped. A process that is
/// killed leaves them to [`Store::clean`].
struct UnlistedFiles<'a> {
    store: &'a Store,
    paths: Vec<String>,
}

impl Drop for UnlistedFiles<'_> {
    fn drop(&mut self) {
        // What cannot be removed now is removed by `clean`.
        self.paths.iter().for_each(|path| drop(self.store.place.remove(path)));
    }
}

impl Store {
    /// Opens the store in a directory, or in a bucket: `s3://bucket/path`.
    pub fn open(at: &std::path::Path) -> Result<Store, StoreError> {
        let place = StoreLocation::at(at, false)?;
        match place.list(LOG)?.is_empty() {
            true => Err(StoreError::NoStore { place: place.name().to_string() }),
            false => Ok(Store { place }),
        }
    }

    /// The same, and makes one if there is none.
    pub fn make(at: &std::path::Path) -> Result<Store, StoreError> {
        Ok(Store { place: StoreLocation::at(at, true)? })
    }

    /// What belongs to it now.
    pub fn contents(&self) -> Result<StoreContents, StoreError> {
        StoreContents::read(&self.place)
    }

    /// The number of the newest entry of its log; another one says that something changed.
    pub fn newest(&self) -> Result<u64, StoreError> {
        log::newest(&self.place)
    }

    /// Begins to add the recording `id`, which was made on this host on this day.
    pub fn add(
        &self,
        id: &str,
        host: &str,
        day: &str,
        vcpus: Vec<Arc<WhoRow>>,
    ) -> Result<PendingRecording<'_>, StoreError> {
        let name = unique(id);
        let path = piece_path(EXITS, host, day, &name);
        let upload = self.place.upload(&path)?;
        let writer = ExitWriter::begin(upload, id, vcpus).map_err(in_file(&path))?;
        let files = UnlistedFiles { store: self, paths: Vec::new() };
        Ok(PendingRecording { files, name, path, writer })
    }

    /// Adds those of some trials that are not there yet; how many.
    pub fn add_trials(&self, trials: &[StoredTrialRow]) -> Result<usize, StoreError> {
        let added = self.commit(|contents| {
            let new = trials.iter().filter(|trial| !contents.trials.contains_key(&trial.id));
            let new: BTreeMap<&str, &StoredTrialRow> = new.map(|trial| (trial.id.as_str(), trial)).collect();
            let trials: Vec<StoredTrialRow> = new.into_values().cloned().collect();
            let count = trials.len();
            (count > 0).then(|| (LogEntry { trials, ..LogEntry::new("add") }, count))
        })?;
        Ok(added.unwrap_or(0))
    }

    /// The rows of a file, of which the bytes are compared with the log first.
    pub fn rows(&self, piece: &DataFile) -> Result<ParquetRecordBatchReader, StoreError> {
        self.sound(piece).map_err(|why| StoreError::Damaged(vec![DamagedFile { path: piece.path.clone(), why }]))
    }

    /// The paths, or the addresses, of a table's files, for other readers; none if there is no such table.
    pub fn files(&self, table: &str, check: FileCheck) -> Result<Option<Vec<String>>, StoreError> {
        if !TABLES.contains(&table) {
            return Ok(None);
        }
        let contents = self.contents()?;
        let files: Vec<DataFile> = contents.pieces.into_values().filter(|piece| piece.table == table).collect();
        if check == FileCheck::Hashes {
            self.verify(files.clone()).map_err(StoreError::Damaged)?;
        }
        let at = self.place.name().trim_end_matches('/');
        Ok(Some(files.iter().map(|file| format!("{at}/{}", file.path)).collect()))
    }

    fn verify(&self, files: impl IntoIterator<Item = DataFile>) -> Result<VerifiedBytes, Vec<DamagedFile>> {
        // The objects are those below the store.
        let known = VerifiedFiles::default();
        self.place.wait(known.verify(self.place.objects(), (self.place.name(), ""), files))
    }

    /// Joins small files of the same host and day. What is joined gets a new hash, so each file is held against its own first:
    /// a damaged one is left alone, and named. One without a hash in the log is never joined.
    pub fn compact(&self) -> Result<Compacted, StoreError> {
        let contents = self.contents()?;
        let mut groups: BTreeMap<(&str, &str, &str), Vec<&DataFile>> = BTreeMap::new();
        let is_joined = |piece: &&DataFile| piece.bytes < LARGE && !piece.sha256.is_empty();
        for piece in contents.pieces.values().filter(is_joined) {
            groups.entry((&piece.table, &piece.host, &piece.day)).or_default().push(piece);
        }
        let mut done = Compacted::default();
        for pieces in groups.values() {
            let mut rest = &pieces[..];
            while rest.len() > 1 {
                let mut bytes = 0;
                let count = rest.iter().take_while(|piece| {
                    bytes += piece.bytes;
                    bytes <= JOINED
                });
                let (joined, further) = rest.split_at(count.count().max(2));
                self.join_sound(joined.to_vec(), &mut done)?;
                rest = further;
            }
        }
        let contents = self.contents()?;
        if contents.entries >= ENTRIES || contents.unsealed > 0 {
            // If somebody else writes just now, the next one does it.
            contents.commit(&self.place, &contents.all())?;
        }
        Ok(done)
    }

    /// Joins those of some files that are as the log says.
    fn join_sound(&self, mut pieces: Vec<&DataFile>, done: &mut Compacted) -> Result<(), StoreError> {
        while pieces.len() > 1 {
            match self.join(&pieces)? {
                Joined::Damaged(damage) => {
                    pieces.retain(|piece| piece.path != damage.path);
                    done.damaged.push(damage);
                }
                Joined::Done => {
                    done.before += pieces.len();
                    done.after += 1;
                    break;
                }
                Joined::Not => break,
            }
        }
        Ok(())
    }

    /// Drops recordings and trials of days before this one, of this host or of all; how many of each.
    pub fn drop_before(&self, day: &str, host: Option<&str>) -> Result<(usize, usize), StoreError> {
        let is_old = |of_day: &str, of_host: &str| of_day < day && host.is_none_or(|host| of_host == host);
        self.commit(|contents| {
            let runs = contents.runs.values().filter(|run| is_old(&run.day, &run.host));
            let trials = contents.trials.values().filter(|trial| is_old(&trial.day, &trial.host));
            let mut forget: BTreeSet<String> = runs.map(|run| run.id.clone()).collect();
            let gone = |piece: &&DataFile| piece.runs.iter().all(|run| forget.contains(run));
            let remove = contents.pieces.values().filter(gone).map(|piece| piece.path.clone()).collect();
            let recordings = forget.len();
            forget.extend(trials.map(|trial| trial.id.clone()));
            let count = (recordings, forget.len() - recordings);
            let entry = LogEntry { forget: forget.into_iter().collect(), remove, ..LogEntry::new("drop") };
            (!entry.forget.is_empty()).then_some((entry, count))
        })
        .map(Option::unwrap_or_default)
    }

    /// Reads every file and every entry of the log.
    pub fn check(&self) -> Result<StoreCheck, StoreError> {
        let LogCheck { whole: entries, unsealed, damaged } = log::check(&self.place)?;
        let mut checked = StoreCheck { entries, unsealed, damaged, ..StoreCheck::default() };
        let contents = match self.contents() {
            Err(StoreError::Entry { .. }) => return Ok(StoreCheck { is_log_damaged: true, ..checked }),
            contents => contents?,
        };
        let damaged = self.verify(contents.pieces.values().cloned()).err().unwrap_or_default();
        checked.whole = (contents.pieces.len() - damaged.len()) as u64;
        let is_sound = |piece: &&DataFile| damaged.iter().all(|damage| damage.path != piece.path);
        let sound = contents.pieces.values().filter(is_sound);
        checked.unhashed = sound.filter(|piece| piece.sha256.is_empty()).count() as u64;
        checked.damaged.extend(damaged);
        let of_log = format!("{LOG}/");
        for file in self.place.list("")? {
            let path = file.location.to_string();
            if !path.starts_with(&of_log) && !contents.pieces.contains_key(&path) {
                checked.unlisted.push(path);
            }
        }
        checked.unlisted.extend(self.place.begun("")?.into_iter().map(|of| of.0));
        Ok(checked)
    }

    /// The files of these contents that can be read, and those that cannot. Of each only the end is looked at.
    pub fn readable(&self, contents: &StoreContents) -> Result<(Vec<DataFile>, Vec<DamagedFile>), StoreError> {
        let sizes: BTreeMap<String, u64> =
            self.place.list("")?.into_iter().map(|file| (file.location.to_string(), file.size)).collect();
        let (mut sound, mut left_out) = (Vec::new(), Vec::new());
        let damage = |piece: &DataFile, why: &str| DamagedFile { path: piece.path.clone(), why: why.to_string() };
        let mut there = Vec::new();
        for piece in contents.pieces.values() {
            match sizes.get(&piece.path) {
                Some(&size) if size == piece.bytes => there.push(piece),
                Some(&size) => left_out.push(damage(piece, &of_size(piece, size))),
                None => left_out.push(damage(piece, "it is not there")),
            }
        }
        for some in there.chunks(READS) {
            let tail = |piece: &&DataFile| Some(piece.bytes.saturating_sub(TAIL)..piece.bytes);
            let tails = some.iter().map(|piece| (piece.path.as_str(), tail(piece)));
            for (&piece, tail) in some.iter().zip(self.place.read_each(tails)) {
                match tail.map_err(|error| error.to_string()).and_then(|tail| self.look_at_end(piece, tail)) {
                    Ok(()) => sound.push(piece.clone()),
                    Err(why) => left_out.push(damage(piece, &why)),
                }
            }
        }
        Ok((sound, left_out))
    }

    /// Where its files are: the address of what holds them, and the path to the store there.
    pub fn address(&self) -> (&str, &Path) {
        self.place.address()
    }

    /// Removes files of the store's tables that have not belonged to it for `age`, which is longer than any add or query
    /// takes, and entries of the log for which a later one has stood for so long; how many.
    ///
    /// What counts is when a file was joined or dropped, not when it was written: whoever opened the store before still reads
    /// it.
    pub fn clean(&self, age: Duration) -> Result<usize, StoreError> {
        let contents = self.contents()?;
        let until = SystemTime::now().checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH);
        let OldLog { superseded, removed_since } = contents.old_log(&self.place, until)?;
        let mut gone = superseded;
        for table in TABLES {
            let files = self.place.list(table)?.into_iter();
            let old = files.filter(|file| SystemTime::from(file.last_modified) <= until);
            let paths = old.map(|file| file.location.to_string());
            let is_left_over = |path: &String| {
                path.ends_with(".parquet") && !contents.pieces.contains_key(path) && !removed_since.contains(path)
            };
            gone.extend(paths.filter(is_left_over));
        }
        gone.iter().try_for_each(|path| self.place.remove(path))?;
        let mut begun = Vec::new();
        for folder in TABLES.into_iter().chain([LOG]) {
            let old = self.place.begun(folder)?.into_iter().filter(|(_, written)| *written <= until);
            begun.extend(old.map(|of| of.0));
        }
        begun.iter().try_for_each(|path| self.place.remove_begun(path))?;
        Ok(gone.len() + begun.len())
    }

    /// Makes one file of several, if all of them are as the log says.
    fn join(&self, pieces: &[&DataFile]) -> Result<Joined, StoreError> {
        let Some(first) = pieces.first() else { return Ok(Joined::Not) };
        let runs: BTreeSet<String> = pieces.iter().flat_map(|piece| piece.runs.iter().cloned()).collect();
        // Others may join other files of these, or the same, at the same time.
        let name = hash(pieces.iter().map(|piece| piece.path.as_str()).collect::<Vec<_>>().join("\n").as_bytes());
        let name = unique(name.get(..ID).unwrap_or(&name));
        let path = piece_path(&first.table, &first.host, &first.day, &name);
        // A later version may have more tables.
        let Some(schema) = schema(&first.table) else { return Ok(Joined::Not) };
        let properties = if first.table == EXITS { exit_properties() } else { properties().build() };
        let upload = self.place.upload(&path)?;
        let mut writer = ArrowWriter::try_new(upload, schema.clone(), Some(properties)).map_err(in_file(&path))?;
        let mut rows = 0;
        for piece in pieces {
            let damaged = |why: String| Ok(Joined::Damaged(DamagedFile { path: piece.path.clone(), why }));
            // One read: what was looked at is what is joined.
            let batches = match self.sound(piece) {
                Ok(batches) => batches,
                Err(why) => return damaged(why),
            };
            let mut own = 0;
            for batch in batches {
                let batch = match batch.and_then(|batch| with_all_columns(&batch, &schema)) {
                    Ok(batch) => batch,
                    Err(error) => return damaged(error.to_string()),
                };
                own += batch.num_rows() as u64;
                writer.write(&batch).map_err(in_file(&path))?;
            }
            if own != piece.rows {
                return damaged(of_rows(piece, own));
            }
            rows += own;
        }
        let Uploaded { bytes, sha256 } = finish(writer.into_inner().map_err(in_file(&path))?, &path)?;
        let DataFile { table, host, day, .. } = (*first).clone();
        let joined = DataFile { table, path, host, day, runs: runs.into_iter().collect(), rows, bytes, sha256 };
        let done = self.commit(|contents| {
            // Somebody may have joined or dropped them meanwhile.
            let there = pieces.iter().all(|piece| contents.pieces.contains_key(&piece.path));
            let remove = pieces.iter().map(|piece| piece.path.clone()).collect();
            there.then(|| (LogEntry { add: vec![joined.clone()], remove, ..LogEntry::new("compact") }, ()))
        })?;
        Ok(done.map_or(Joined::Not, |()| Joined::Done))
    }

    /// The rows of a file whose bytes are those that were written; or why they are not. The hash comes first: decoders are
    /// given nothing that is damaged.
    fn sound(&self, piece: &DataFile) -> Result<ParquetRecordBatchReader, String> {
        let bytes = self.place.read(&piece.path).map_err(|error| error.to_string())?;
        let size = bytes.len() as u64;
        if size != piece.bytes {
            return Err(of_size(piece, size));
        }
        if !piece.sha256.is_empty() && piece.sha256 != hash(&bytes) {
            return Err(CHANGED.to_string());
        }
        let rows = ParquetRecordBatchReaderBuilder::try_new(bytes).and_then(|reader| reader.build());
        rows.map_err(|error| error.to_string())
    }

    /// Why a file of the right size is not as the log says, as far as its end tells, of which these are the last bytes.
    fn look_at_end(&self, piece: &DataFile, mut tail: Bytes) -> Result<(), String> {
        let size = piece.bytes;
        let mut reader = ParquetMetaDataReader::new();
        loop {
            match reader.try_parse_sized(&tail, size) {
                Err(ParquetError::NeedMoreData(more)) if tail.len() < more && more as u64 <= size => {
                    let more = size - more as u64..size;
                    let read = self.place.read_each([(piece.path.as_str(), Some(more))].into_iter()).pop();
                    tail = read.unwrap_or_else(|| Ok(Bytes::new())).map_err(|error| error.to_string())?;
                }
                parsed => break parsed.map_err(|error| error.to_string())?,
            }
        }
        let meta = reader.finish().map_err(|error| error.to_string())?;
        is_of(piece, meta.file_metadata())
    }

    /// Writes the entry that `make` makes of what is there; makes it anew if others wrote one meanwhile.
    fn commit<T>(&self, make: impl Fn(&StoreContents) -> Option<(LogEntry, T)>) -> Result<Option<T>, StoreError> {
        for _ in 0..TRIES {
            let contents = self.contents()?;
            let Some((entry, made)) = make(&contents) else { return Ok(None) };
            if contents.commit(&self.place, &entry)? {
                return Ok(Some(made));
            }
        }
        Err(StoreError::Busy(TRIES))
    }
}

impl PendingRecording<'_> {
    /// From now on, subjects are called so.
    pub fn name_subjects(&mut self, names: SubjectNames) {
        self.writer.name_subjects(names);
    }

    /// Adds an exit of the vCPU of this number.
    pub fn absorb(&mut self, vcpu: usize, exit: &Exit) -> Result<(), StoreError> {
        self.writer.absorb(vcpu, exit).map_err(in_file(&self.path))
    }

    /// Makes the recording belong to the store.
    pub fn finish(self, run: &RecordingRow, sums: &RecordingStats) -> Result<AddOutcome, StoreError> {
        let PendingRecording { mut files, name, path, writer } = self;
        let uploaded = files.finish(writer.finish().map_err(in_file(&path))?, &path)?;
        let mut pieces = vec![piece(EXITS, path.clone(), run, run.exits, uploaded)];
        let RecordingStats { facts, halts, gangs } = sums;
        let of = (run, name.as_str());
        pieces.push(files.write(FACTS, of, &sum_columns(), facts)?);
        if !halts.is_empty() {
            pieces.push(files.write(HALTS, of, &halt_columns(), halts)?);
        }
        if !gangs.is_empty() {
            pieces.push(files.write(GANGS, of, &gang_columns(), gangs)?);
        }
        let is_listed = Cell::new(false);
        let added = files.store.commit(|contents| {
            // A bucket may have taken an entry without having said so.
            is_listed.set(contents.pieces.contains_key(&path));
            let entry = || LogEntry { runs: vec![run.clone()], add: pieces.clone(), ..LogEntry::new("add") };
            (!contents.runs.contains_key(&run.id)).then(|| (entry(), ()))
        });
        if !matches!(added, Ok(None)) || is_listed.get() {
            files.keep();
        }
        if added?.is_none() && !is_listed.get() {
            return Ok(AddOutcome::Already);
        }
        let bytes = |pieces: &[DataFile]| pieces.iter().map(|piece| piece.bytes).sum();
        let (exits, sums) = pieces.split_at(1);
        Ok(AddOutcome::New { exits: bytes(exits), sums: bytes(sums) })
    }
}

impl UnlistedFiles<'_> {
    /// Writes sums of a recording.
    fn write<R: 'static>(
        &mut self,
        table: &str,
        (run, name): (&RecordingRow, &str),
        columns: &[Column<R>],
        rows: &[R],
    ) -> Result<DataFile, StoreError> {
        let path = piece_path(table, &run.host, &run.day, name);
        let upload = self.store.place.upload(&path)?;
        let upload = stats_tables::write(upload, columns, &run.id, rows).map_err(in_file(&path))?;
        let uploaded = self.finish(upload, &path)?;
        Ok(piece(table, path, run, rows.len() as u64, uploaded))
    }

    fn finish(&mut self, upload: Upload, path: &str) -> Result<Uploaded, StoreError> {
        self.paths.push(path.to_string());
        finish(upload, path)
    }

    /// They belong to the store, or may.
    fn keep(&mut self) {
        self.paths.clear();
    }
}

/// The columns of a table; none if there is no such table.
pub fn schema(table: &str) -> Option<SchemaRef> {
    match table {
        EXITS => Some(columns_of(&exit_columns(), ExitStrings::Numbered)),
        FACTS => Some(columns_of(&sum_columns(), ExitStrings::Plain)),
        HALTS => Some(columns_of(&halt_columns(), ExitStrings::Plain)),
        GANGS => Some(columns_of(&gang_columns(), ExitStrings::Plain)),
        _ => None,
    }
}

/// A file of one recording.
fn piece(table: &str, path: String, run: &RecordingRow, rows: u64, Uploaded { bytes, sha256 }: Uploaded) -> DataFile {
    let (host, day, runs) = (run.host.clone(), run.day.clone(), vec![run.id.clone()]);
    DataFile { table: table.to_string(), path, host, day, runs, rows, bytes, sha256 }
}

/// Rows of a file of before some columns were thought of have nothing in them.
fn with_all_columns(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let column = |field: &FieldRef| match batch.column_by_name(field.name()) {
        Some(column) => column.clone(),
        None => new_null_array(field.data_type(), batch.num_rows()),
    };
    RecordBatch::try_new(schema.clone(), schema.fields().iter().map(column).collect())
}

fn finish(upload: Upload, path: &str) -> Result<Uploaded, StoreError> {
    upload.finish().map_err(|error| StoreError::Object { what: format!("cannot write {path}"), why: why(&error) })
}

/// A file's name that no other process gives to any: a file that is in the log is never written again.
fn unique(name: &str) -> String {
    format!("{name}-{:016x}", RandomState::new().hash_one(name))
}

fn piece_path(table: &str, host: &str, day: &str, name: &str) -> String {
    let host = if host.is_empty() { "unknown" } else { host };
    Path::from_iter([table, &format!("host={host}"), &format!("day={day}"), &format!("{name}.parquet")]).to_string()
}

fn in_file(path: &str) -> impl Fn(ParquetError) -> StoreError {
    move |source| StoreError::Parquet { file: path.to_string(), source }
}
