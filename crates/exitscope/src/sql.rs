//! `exitscope sql`: a store asked in SQL; once, in a pipe, or at a prompt.

use crate::Outcome;
use crate::cli::{QueryLimits, SqlArgs, SqlFormat};
use crate::output_file;
use crate::terminal::terminal_style;
use anyhow::{Context, bail};
use exitscope_query::{EngineLimits, FUNCTIONS, QueryEngine, RowFormat, TABLES, is_number, texts, write_rows};
use exitscope_store::{FileCheck, Store, VerifiedBytes};
use exitscope_units::Nanos;
use exitscope_view::{Page, PageSection, Table, TableColumn, thousands, write_page};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Editor, Helper};
use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is read of standard input at most: queries are short.
const MAX_QUERIES: u64 = 16 << 20;

/// Opens a store for queries, and says which of its files cannot be read.
pub fn open(dir: &Path, limits: &QueryLimits) -> anyhow::Result<QueryEngine> {
    let store = Store::open(dir)?;
    let threads =
        limits.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let most = EngineLimits { memory: limits.memory, time: Duration::from_nanos(limits.timeout.0), threads };
    let check = if limits.no_verify { FileCheck::Ends } else { FileCheck::Hashes };
    match &limits.cluster {
        None => Ok(QueryEngine::open(&store, most, check)?),
        #[cfg(feature = "cluster")]
        Some(scheduler) => {
            let scheduler = crate::cluster::scheduler(scheduler, limits.cluster_token_file.as_deref())?;
            Ok(QueryEngine::on_cluster(&store, most, &scheduler, check)?)
        }
        #[cfg(not(feature = "cluster"))]
        Some(_) => bail!(crate::NO_CLUSTER),
    }
}

pub fn run(args: &SqlArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    if args.format == SqlFormat::Parquet && args.output.is_none() {
        bail!("--format parquet requires --output FILE");
    }
    if let Some(to) = &args.output {
        output_file::can_write(to)?;
    }
    let mut engine = open(&args.dir, &args.limits)?;
    name_left_out(&engine);
    match (&args.query, &args.output) {
        (Some(query), Some(to)) => {
            let rows = output_file::replace(to, |mut file| answer(&engine, query, args, &mut file))?;
            say!("wrote {}: {} rows", to.display(), thousands(rows));
        }
        (Some(query), None) => drop(answer(&engine, query, args, out)?),
        (None, _) if io::stdin().is_terminal() => prompt(&mut engine, args, out)?,
        (None, _) => {
            let mut text = String::new();
            io::stdin().lock().take(MAX_QUERIES).read_to_string(&mut text).context("standard input")?;
            let store = Store::open(&args.dir)?;
            for query in text.split_inclusive(';').map(str::trim).filter(|query| !query.is_empty()) {
                look_again(&mut engine, &store)?;
                answer(&engine, query, args, out)?;
            }
        }
    }
    say_verified(engine.verified());
    Ok(Outcome::Fine)
}

/// Bytes that are compared with their hashes without a word: a second's work, about.
const QUIETLY_VERIFIED: u64 = 1 << 30;

/// Says what comparing files with their hashes took, if there were many bytes.
pub fn say_verified((verified, took): (VerifiedBytes, Duration)) {
    if let Some(text) = verified_text(verified, took) {
        say!("{text}");
    }
}

fn verified_text(VerifiedBytes { files, bytes }: VerifiedBytes, took: Duration) -> Option<String> {
    let (files, megabytes) = (thousands(files), thousands(bytes / 1_000_000));
    let took = Nanos(took.as_nanos() as u64);
    let text =
        format!("compared {files} files ({megabytes} MB) with their hashes, in {took}; --no-verify leaves this out");
    (bytes >= QUIETLY_VERIFIED).then_some(text)
}

fn name_left_out(engine: &QueryEngine) {
    for file in engine.left_out() {
        say!("left out: {}: {}", file.path, file.why);
    }
}

/// Has a query asked of the store as it is now, and says if that is not what it was.
fn look_again(engine: &mut QueryEngine, store: &Store) -> anyhow::Result<()> {
    if engine.refresh(store)? {
        say!("the store has changed; recordings in it: {}", thousands(engine.runs().len() as u64));
        name_left_out(engine);
    }
    Ok(())
}

/// Writes the answer to a query; how many rows it has.
fn answer(engine: &QueryEngine, query: &str, args: &SqlArgs, out: &mut dyn Write) -> anyhow::Result<u64> {
    match args.format {
        SqlFormat::Text => text(engine, query, args.rows, out),
        SqlFormat::Csv => Ok(write_rows(engine, query, RowFormat::Csv, out)?),
        SqlFormat::Json => Ok(write_rows(engine, query, RowFormat::Json, out)?),
        SqlFormat::Parquet => Ok(write_rows(engine, query, RowFormat::Parquet, out)?),
    }
}

fn text(engine: &QueryEngine, query: &str, most: usize, out: &mut dyn Write) -> anyhow::Result<u64> {
    let mut table = Table::default();
    let (mut count, most) = (0, most as u64);
    engine.query(query, &mut |columns, batch| {
        if table.columns.is_empty() {
            let column = |field: &exitscope_query::Field| TableColumn {
                title: field.name().clone().into(),
                names: !is_number(field.data_type()),
                rank: 0,
            };
            table.columns = columns.fields().iter().map(|field| column(field)).collect();
        }
        if let Some(batch) = batch {
            count += batch.num_rows() as u64;
            let left = most - (count - batch.num_rows() as u64);
            let shown = left.min(batch.num_rows() as u64) as usize;
            table.rows.extend(texts(&batch.slice(0, shown))?.into_iter().flat_map(lines));
        }
        Ok(count <= most)
    })?;
    let title = match count {
        1 => "1 row".to_string(),
        count if count > most => format!("The first {} rows; --rows shows more", thousands(most)),
        count => format!("{} rows", thousands(count)),
    };
    let section = PageSection { title, table: Some(table), ..PageSection::default() };
    write_page(&Page { sections: vec![section] }, terminal_style(), out)?;
    Ok(count)
}

/// A row, as many lines high as its values have.
fn lines(row: Vec<String>) -> Vec<Vec<String>> {
    let height = row.iter().map(|value| value.trim_end().lines().count()).max().unwrap_or(0).max(1);
    let line = |at: usize| row.iter().map(|value| value.lines().nth(at).unwrap_or_default().to_string()).collect();
    (0..height).map(line).collect()
}

/// Asks for queries until there are no more.
fn prompt(engine: &mut QueryEngine, args: &SqlArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let store = Store::open(&args.dir)?;
    let mut editor: Editor<Words, FileHistory> = Editor::new()?;
    editor.set_helper(Some(Words { words: engine.words() }));
    let history = history_file();
    if let Some(history) = &history {
        // There is none at first.
        let _ = editor.load_history(history);
    }
    writeln!(out, "Queries end with ; and Tab completes names. \\d lists tables and functions, \\q ends.")?;
    out.flush()?;
    loop {
        let line = match editor.readline("sql> ") {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        };
        let _ = editor.add_history_entry(&line);
        if let Some(history) = &history {
            let _ = editor.save_history(history);
        }
        match line.trim().trim_end_matches(';').trim() {
            "" => {}
            "\\q" | "quit" | "exit" => break,
            "\\d" | "\\?" | "help" => help(engine, out)?,
            query => {
                // A wrong query is no reason to stop.
                let answered = look_again(engine, &store).and_then(|()| answer(engine, query, args, out));
                if let Err(error) = answered {
                    say!("{error:#}");
                }
            }
        }
        out.flush()?;
    }
    Ok(())
}

fn help(engine: &QueryEngine, out: &mut dyn Write) -> anyhow::Result<()> {
    for table in TABLES {
        let names = engine.columns(table);
        writeln!(out, "{table}: {}", names.join(", "))?;
    }
    writeln!(out)?;
    for function in FUNCTIONS {
        writeln!(out, "{}\n    {}", function.call, function.gives)?;
    }
    writeln!(out, "\nand the functions of DataFusion: https://datafusion.apache.org/user-guide/sql/")?;
    Ok(())
}

fn history_file() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let folder = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).or_else(home)?.join("exitscope");
    // The file itself is made private by rustyline.
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
    Some(folder.join("sql_history"))
}

/// Completes names, and asks on until a query has its semicolon.
struct Words {
    words: BTreeSet<String>,
}

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &rustyline::Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let is_name = |of: char| of.is_alphanumeric() || of == '_';
        let from = line[..at].char_indices().rev().take_while(|of| is_name(of.1)).last().map_or(at, |of| of.0);
        let begun = line[from..at].to_lowercase();
        let words = self.words.range(begun.clone()..).take_while(|word| word.starts_with(&begun));
        Ok((from, if begun.is_empty() { Vec::new() } else { words.cloned().collect() }))
    }
}

impl Validator for Words {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let line = context.input().trim();
        let whole = line.is_empty() || line.ends_with(';') || line.starts_with('\\');
        let whole = whole || matches!(line, "quit" | "exit" | "help");
        Ok(if whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Helper for Words {}
impl Highlighter for Words {}
impl Hinter for Words {
    type Hint = String;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_comparing_many_bytes_is_said() {
        let text = |bytes| verified_text(VerifiedBytes { files: 1_234, bytes }, Duration::from_millis(2_400));
        assert_eq!(text(QUIETLY_VERIFIED - 1), None);
        let said = "compared 1,234 files (13,000 MB) with their hashes, in 2.40s; --no-verify leaves this out";
        assert_eq!(text(13_000_000_000).as_deref(), Some(said));
    }
}
