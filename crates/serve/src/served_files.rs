//! The files that are served, by number. Each is read when it is asked for, one at a time, on another thread, and anew when it
//! has changed since.

use crate::cached_page::{CachedPage, Make, WAIT};
use crate::named_file::NamedFile;
use exitscope_http::{Bytes, SseChannel, SseEvent, visible};
use exitscope_model::TimePart;
use exitscope_page::Question;
use exitscope_view::{Report, VcpuRow};
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::task::{spawn_blocking, spawn_local};
use tokio::time::timeout;

/// Bytes of packed data that are kept; what was not asked for longest is made anew.
const MOST_DATA: usize = 256 << 20;

/// Times that the server looks after us, from one look at watched files to the next.
const LOOK: u32 = 4;

/// Comparisons, and likewise answers, that are made, or wait for their turn, or for who asked for them. Each that is made is a thread.
const MOST_MADE: usize = 8;

/// Reads recordings, and makes what is shown of them, packed; or says why it cannot.
pub trait Recordings: Send + Sync {
    /// What the page of a recording shows.
    fn page(&self, file: &NamedFile) -> Result<RecordingPage, String>;
    /// What the page of two recordings shows.
    fn comparison(&self, before: &NamedFile, after: &NamedFile) -> Result<Vec<u8>, String>;
    /// The answer to a question about a recording, of this version of the file.
    fn answer(&self, file: &NamedFile, version: String, question: &Question) -> Result<Vec<u8>, String>;
    /// The page, as HTML, of a text that somebody has pasted.
    fn pasted(&self, text: &[u8]) -> Result<Vec<u8>, String>;
}

/// What the page of a recording shows.
pub struct RecordingPage {
    /// What the list says of it.
    pub summary: RecordingSummary,
    /// The rest, packed.
    pub data: Vec<u8>,
}

/// The files.
pub struct ServedFiles {
    files: Vec<File>,
    recordings: Arc<dyn Recordings>,
    /// Has one file read at a time.
    reading: Semaphore,
    turns: Cell<u32>,
    /// How often data was asked for.
    asked: Cell<u64>,
    /// Files compared, by their numbers.
    compared: MadeOf<(usize, usize)>,
    /// Answers to what a file's page does not hold.
    answered: MadeOf<(usize, Question)>,
    /// Has one comparison or one answer made at a time.
    making: Arc<Mutex<()>>,
}

/// What is being made, by what was asked for.
type MadeOf<K> = RefCell<BTreeMap<K, Rc<CachedPage>>>;

struct File {
    named: NamedFile,
    made: RefCell<Option<Made>>,
    /// Whether somebody has it read.
    is_read: Cell<bool>,
    /// Told when it has been read.
    done: watch::Sender<()>,
    /// Told when it changes on disk, as long as somebody listens.
    changed: watch::Sender<SseEvent>,
}

/// What was made of a file.
struct Made {
    version: String,
    found: Result<Found, String>,
    /// The last time that it was asked for.
    asked: u64,
}

struct Found {
    summary: RecordingSummary,
    data: Option<Bytes>,
}

/// What the list says of a file.
#[derive(Clone, Serialize)]
pub struct RecordingSummary {
    format: String,
    hostname: String,
    duration_ns: u64,
    vcpus: usize,
    exits: u64,
    cost_ns: Option<u64>,
    /// What exits cost, and steal, as parts of the vCPUs' time; null where that was not recorded.
    cost_share: Option<f64>,
    steal_share: Option<f64>,
    /// What it comes to, and whether what is missing could change that.
    verdict: String,
    is_doubtful: bool,
    events: u64,
    lost: Option<u64>,
    /// What of it could not be used.
    damage: Vec<String>,
}

/// A row of the list.
#[derive(Serialize)]
struct Row<'a> {
    name: String,
    page: String,
    /// Neither if it has not been read yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<&'a RecordingSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<&'a str>,
}

impl ServedFiles {
    /// Files, none of which is read yet.
    pub fn new(files: Vec<NamedFile>, recordings: Arc<dyn Recordings>) -> Rc<ServedFiles> {
        let file = |named| File {
            named,
            made: RefCell::new(None),
            is_read: Cell::new(false),
            done: watch::Sender::new(()),
            changed: watch::Sender::new(SseEvent::default()),
        };
        let files = files.into_iter().map(file).collect();
        Rc::new(ServedFiles {
            files,
            recordings,
            reading: Semaphore::new(1),
            turns: Cell::new(0),
            asked: Cell::new(0),
            compared: RefCell::default(),
            answered: RefCell::default(),
            making: Arc::default(),
        })
    }

    /// Who reads them.
    pub(crate) fn recordings(&self) -> Arc<dyn Recordings> {
        self.recordings.clone()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// What a file is called, in one line.
    pub fn name(&self, number: usize) -> String {
        visible(&self.files[number].named.name().display().to_string()).replace('\n', "\\n")
    }

    /// Notes when the file changes.
    pub fn notes(&self, number: usize) -> SseChannel {
        self.files[number].look();
        self.files[number].changed.subscribe()
    }

    /// Version and data of a file, or why there is none; `None` if it takes long to read.
    pub async fn data(self: &Rc<Self>, number: usize) -> Option<Result<(String, Bytes), String>> {
        self.asked.set(self.asked.get() + 1);
        if !self.files[number].is_fresh(true) && !self.wait_for(number).await {
            return None;
        }
        let mut made = self.files[number].made.borrow_mut();
        let made = made.as_mut()?;
        made.asked = self.asked.get();
        match &made.found {
            // Without data it was put away meanwhile.
            Ok(found) => found.data.clone().map(|data| Ok((made.version.clone(), data))),
            Err(trouble) => Some(Err(trouble.clone())),
        }
    }

    /// One file compared with another; `None` if too many are being compared.
    pub fn compared(&self, before: usize, after: usize) -> Option<Rc<CachedPage>> {
        self.made(&self.compared, (before, after), || {
            let [before, after] = [before, after].map(|number| self.files[number].named.clone());
            let recordings = self.recordings.clone();
            Arc::new(move || recordings.comparison(&before, &after))
        })
    }

    /// The answer to a question about a file; `None` if too many are being made.
    pub fn answered(&self, number: usize, question: &Question) -> Option<Rc<CachedPage>> {
        self.made(&self.answered, (number, question.clone()), || {
            let (named, recordings) = (self.files[number].named.clone(), self.recordings.clone());
            let question = question.clone();
            // As it was before: what is added meanwhile makes it another version.
            Arc::new(move || recordings.answer(&named, version(&named), &question))
        })
    }

    /// What is made of `key`, in turn with all else; `None` if too many are being made.
    fn made<K: Ord>(&self, all: &MadeOf<K>, key: K, make: impl FnOnce() -> Make) -> Option<Rc<CachedPage>> {
        let mut all = all.borrow_mut();
        all.retain(|_, fresh| !fresh.is_idle());
        if all.len() >= MOST_MADE && !all.contains_key(&key) {
            return None;
        }
        let fresh = || {
            let (make, making) = (make(), self.making.clone());
            Rc::new(CachedPage::new(Arc::new(move || {
                let _turn = making.lock().unwrap_or_else(PoisonError::into_inner);
                make()
            })))
        };
        Some(all.entry(key).or_insert_with(fresh).clone())
    }

    /// What is known of every file, as JSON. Waits for what is read, but not for long.
    pub async fn list(self: &Rc<Self>) -> String {
        let wait = async {
            for number in 0..self.files.len() {
                if !self.files[number].is_fresh(false) {
                    self.wait_for(number).await;
                }
            }
        };
        // What takes longer is in the next list.
        let _ = timeout(Duration::from_secs(1), wait).await;
        let made: Vec<_> = self.files.iter().map(|file| file.made.borrow()).collect();
        let rows = made.iter().enumerate().map(|(number, made)| Row {
            name: self.name(number),
            page: format!("/page/{number}"),
            found: made.as_ref().and_then(|made| Some(&made.found.as_ref().ok()?.summary)),
            trouble: made.as_ref().and_then(|made| made.found.as_ref().err().map(String::as_str)),
        });
        serde_json::to_string(&rows.collect::<Vec<_>>()).unwrap_or_default()
    }

    /// Looks whether files that are shown have changed.
    pub fn turn(&self) {
        self.turns.set((self.turns.get() + 1) % LOOK);
        if self.turns.get() == 0 {
            // What nobody waited for.
            self.compared.borrow_mut().retain(|_, fresh| !fresh.is_idle());
            self.answered.borrow_mut().retain(|_, fresh| !fresh.is_idle());
            self.files.iter().filter(|file| file.changed.receiver_count() > 0).for_each(File::look);
        }
    }

    /// Has a file read, and waits; `false` if that takes long, but it goes on.
    async fn wait_for(self: &Rc<Self>, number: usize) -> bool {
        let file = &self.files[number];
        let mut done = file.done.subscribe();
        if !file.is_read.replace(true) {
            let library = self.clone();
            spawn_local(async move {
                library.read(number).await;
                library.files[number].is_read.set(false);
                library.files[number].done.send_replace(());
            });
        }
        timeout(WAIT, done.changed()).await.is_ok()
    }

    async fn read(&self, number: usize) {
        let Ok(_turn) = self.reading.acquire().await else { return };
        let file = &self.files[number];
        // As it was before: what is added meanwhile makes it another version.
        let version = version(&file.named);
        let (named, recordings) = (file.named.clone(), self.recordings.clone());
        let found = spawn_blocking(move || recordings.page(&named)).await;
        let found =
            found.unwrap_or_else(|_| Err(format!("{} could not be read: an error in exitscope", self.name(number))));
        let found = found.map(|RecordingPage { summary, data }| Found { summary, data: Some(data.into()) });
        *file.made.borrow_mut() = Some(Made { version, found, asked: self.asked.get() });
        file.look();
        self.put_away(number);
    }

    /// Keeps the data of all files but this one within its bound.
    fn put_away(&self, but: usize) {
        let mut sizes: Vec<(u64, usize, usize)> = Vec::new();
        for (number, file) in self.files.iter().enumerate() {
            if let Some(Made { found: Ok(Found { data: Some(data), .. }), asked, .. }) = &*file.made.borrow() {
                sizes.push((*asked, number, data.len()));
            }
        }
        sizes.sort_unstable();
        let mut all: usize = sizes.iter().map(|row| row.2).sum();
        for (_, number, size) in sizes.into_iter().filter(|row| row.1 != but) {
            if all <= MOST_DATA {
                break;
            }
            if let Some(Made { found: Ok(found), .. }) = &mut *self.files[number].made.borrow_mut() {
                found.data = None;
            }
            all -= size;
        }
    }
}

impl File {
    /// Whether it is as it was when it was read; `with_data`: and that is at hand.
    fn is_fresh(&self, with_data: bool) -> bool {
        let made = self.made.borrow();
        let Some(made) = made.as_ref() else { return false };
        let at_hand = made.found.as_ref().map_or(true, |found| found.data.is_some() || !with_data);
        at_hand && made.version == version(&self.named)
    }

    /// Tells who listens if it has changed.
    fn look(&self) {
        let id = version(&self.named);
        let note = SseEvent { data: format!("{{\"gone\":{}}}", id == GONE), id };
        self.changed.send_if_modified(|last| std::mem::replace(last, note.clone()) != note);
    }
}

/// The version of a file that is not there, or in whose place is something else.
const GONE: &str = "gone";

/// What tells a file from what it was before: which it is, how long, and when it was written.
fn version(file: &NamedFile) -> String {
    file.stat().map_or(GONE.to_string(), |file| {
        let at = i128::from(file.st_mtime) * 1_000_000_000 + file.st_mtime_nsec as i128;
        format!("{:x}-{:x}-{:x}-{at:x}", file.st_dev, file.st_ino, file.st_size)
    })
}

impl RecordingSummary {
    /// What a report comes to.
    pub fn of(report: &Report) -> RecordingSummary {
        let trace = report.traces.first();
        let sum = |of: &dyn Fn(&VcpuRow) -> u64| report.vcpus.iter().map(of).fold(0, u64::saturating_add);
        let wall = sum(&|row| row.span_ns);
        let part = |time: u64| (wall > 0).then(|| time as f64 / wall as f64);
        let steal = sum(&|row| row.times.get(TimePart::Steal));
        RecordingSummary {
            format: trace.map_or(String::new(), |trace| trace.format.clone()),
            hostname: trace.map_or(String::new(), |trace| trace.hostname.clone()),
            duration_ns: report.duration_ns,
            vcpus: report.vcpus.len(),
            exits: report.coverage.exits,
            cost_ns: report.total.cost_ns,
            cost_share: report.total.cost_ns.and_then(|_| part(sum(&|row| row.cost_ns.unwrap_or(0)))),
            steal_share: report.event_kinds.scheduler.then(|| part(steal)).flatten(),
            verdict: report.verdict.text.clone(),
            is_doubtful: report.verdict.is_doubtful,
            events: report.coverage.events,
            lost: report.coverage.lost,
            damage: report.coverage.damage().map(|line| line.to_string()).collect(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::channel;
    use std::time::SystemTime;
    use tokio::task::LocalSet;

    /// Says of any two recordings the same, and of each how often it was read.
    #[derive(Default)]
    pub(crate) struct Alike {
        read: AtomicU64,
    }

    impl Recordings for Alike {
        fn page(&self, file: &NamedFile) -> Result<RecordingPage, String> {
            let length = file.stat().map_err(|error| error.to_string())?.st_size as usize;
            let exits = self.read.fetch_add(1, Ordering::Relaxed) + 1;
            let summary = RecordingSummary {
                format: String::new(),
                hostname: String::new(),
                duration_ns: 0,
                vcpus: 0,
                exits,
                cost_ns: None,
                cost_share: None,
                steal_share: None,
                verdict: String::new(),
                is_doubtful: false,
                events: 0,
                lost: None,
                damage: Vec::new(),
            };
            Ok(RecordingPage { summary, data: vec![0; length] })
        }

        fn comparison(&self, _: &NamedFile, _: &NamedFile) -> Result<Vec<u8>, String> {
            std::thread::sleep(Duration::from_millis(20));
            Ok(vec![7])
        }

        fn answer(&self, _: &NamedFile, _: String, _: &Question) -> Result<Vec<u8>, String> {
            Err("a test".to_string())
        }

        fn pasted(&self, _: &[u8]) -> Result<Vec<u8>, String> {
            Ok(Vec::new())
        }
    }

    /// Files without anything in them, of so many MiB each.
    fn files(folder: &Path, sizes: &[u64]) -> Vec<PathBuf> {
        let path = |number: usize| folder.join(format!("{number}.data"));
        for (number, size) in sizes.iter().enumerate() {
            fs::File::create(path(number)).unwrap().set_len(size << 20).unwrap();
        }
        (0..sizes.len()).map(path).collect()
    }

    fn served(paths: &[PathBuf]) -> (Rc<ServedFiles>, Arc<Alike>) {
        let alike = Arc::new(Alike::default());
        let named = paths.iter().map(|path| NamedFile::find(path).unwrap()).collect();
        (ServedFiles::new(named, alike.clone()), alike)
    }

    async fn length(library: &Rc<ServedFiles>, number: usize) -> usize {
        library.data(number).await.unwrap().unwrap().1.len()
    }

    #[tokio::test]
    async fn a_file_is_read_once_for_all_who_ask_and_anew_when_it_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let paths = files(folder.path(), &[1, 2]);
        let (library, alike) = served(&paths);
        let read = || alike.read.load(Ordering::Relaxed);
        let all = async {
            let both = tokio::join!(library.data(0), library.data(0));
            assert!(both.0.is_some() && both.0 == both.1);
            for _ in 0..2 {
                assert_eq!((length(&library, 0).await, read()), (1 << 20, 1));
            }
            let list: serde_json::Value = serde_json::from_str(&library.list().await).unwrap();
            assert_eq!((&list[0]["found"]["exits"], &list[1]["found"]["exits"], read()), (&1.into(), &2.into(), 2));
            files(folder.path(), &[3]);
            assert_eq!((length(&library, 0).await, read()), (3 << 20, 3));
            fs::remove_file(&paths[0]).unwrap();
            assert!(matches!(library.data(0).await, Some(Err(_))));
            assert_eq!((length(&library, 1).await, read()), (2 << 20, 3));
        };
        LocalSet::new().run_until(all).await;
    }

    #[tokio::test]
    async fn what_was_not_asked_for_longest_is_put_away_and_is_still_in_the_list() {
        let folder = tempfile::tempdir().unwrap();
        let (library, alike) = served(&files(folder.path(), &[10, 100, 100, 50]));
        let at_hand = || -> Vec<bool> { library.files.iter().map(|file| file.is_fresh(true)).collect() };
        let all = async {
            for number in 0..4 {
                length(&library, number).await;
            }
            assert_eq!(at_hand(), [false, true, true, true], "250 MiB");
            length(&library, 1).await;
            assert_eq!(alike.read.load(Ordering::Relaxed), 4);
            library.list().await;
            assert_eq!(alike.read.load(Ordering::Relaxed), 4);
            length(&library, 0).await;
            assert_eq!(at_hand(), [true, true, false, true], "160 MiB");
            length(&library, 2).await;
            assert_eq!(at_hand(), [true, true, true, false], "210 MiB");
            // Two of them make room for one.
            files(folder.path(), &[200]);
            length(&library, 0).await;
            assert_eq!(at_hand(), [true, false, false, false], "200 MiB");
            assert_eq!(alike.read.load(Ordering::Relaxed), 7);
        };
        LocalSet::new().run_until(all).await;
    }

    #[test]
    fn whoever_listens_is_told_in_a_while_that_a_file_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let paths = files(folder.path(), &[1, 1]);
        let (library, _) = served(&paths);
        let mut notes = library.notes(0);
        let begin = notes.borrow_and_update().clone();
        assert_eq!(begin.data, "{\"gone\":false}");
        let turns = |times: u32| (0..times).for_each(|_| library.turn());
        turns(LOOK);
        assert!(!notes.has_changed().unwrap());
        files(folder.path(), &[2, 2]);
        turns(LOOK - 1);
        assert!(!notes.has_changed().unwrap(), "not with each turn");
        turns(1);
        let changed = notes.borrow_and_update().clone();
        assert_ne!(changed.id, begin.id);
        assert_eq!(*library.files[1].changed.borrow(), SseEvent::default(), "nobody listens");
        fs::remove_file(&paths[0]).unwrap();
        turns(LOOK);
        assert_eq!(*notes.borrow_and_update(), SseEvent { id: "gone".into(), data: "{\"gone\":true}".into() });
        drop(notes);
        files(folder.path(), &[1]);
        turns(LOOK);
        assert_eq!(library.files[0].changed.borrow().id, "gone", "nobody listens any more");
    }

    #[test]
    fn a_version_tells_moments_of_one_second_apart() {
        let folder = tempfile::tempdir().unwrap();
        let paths = files(folder.path(), &[1]);
        let named = NamedFile::find(&paths[0]).unwrap();
        let file = fs::File::options().write(true).open(&paths[0]).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::new(3, 5)).unwrap();
        let version = version(&named);
        assert!(version.ends_with(&format!("-{:x}-{:x}", 1 << 20, 3_000_000_005u64)), "{version}");
    }

    #[tokio::test]
    async fn only_so_many_comparisons_are_under_way_whatever_is_asked_for() {
        let trace = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/x86-svm/t2.data.gz"));
        let files = vec![NamedFile::find(trace).unwrap(); 5];
        let library = ServedFiles::new(files, Arc::new(Alike::default()));
        let all = async {
            // None of them ends before we say so.
            let (comparing, (held, is_held), (go_on, wait)) = (library.making.clone(), channel(), channel::<()>());
            std::thread::spawn(move || {
                let _held = comparing.lock();
                held.send(()).unwrap();
                let _ = wait.recv();
            });
            is_held.recv().unwrap();
            let mut begun = Vec::new();
            for (before, after) in (0..25).map(|pair| (pair / 5, pair % 5)) {
                let Some(fresh) = library.compared(before, after) else { continue };
                assert!(timeout(Duration::ZERO, fresh.data()).await.is_err());
                begun.push(fresh);
            }
            assert_eq!(begun.len(), MOST_MADE);
            assert!(library.compared(0, 0).is_some(), "it is under way");
            drop(go_on);
            for fresh in begun {
                assert!(matches!(fresh.data().await, Some(Ok(_))));
            }
            let last = library.compared(4, 4).unwrap();
            assert_eq!(library.compared.borrow().len(), 1, "what was read is not kept");
            assert!(timeout(Duration::ZERO, last.data()).await.is_err());
            (0..LOOK).for_each(|_| library.turn());
            assert_eq!(library.compared.borrow().len(), 1, "it is under way");
            assert!(matches!(last.data().await, Some(Ok(_))));
            (0..LOOK).for_each(|_| library.turn());
            assert!(library.compared.borrow().is_empty());
        };
        LocalSet::new().run_until(all).await;
    }
}
