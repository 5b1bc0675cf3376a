//! The Python module beside the package `exitscope`, which makes command lines of what its functions are given.
//!
//! ```text
//! exitscope/__init__.py ─► a command line ─► CommandLine ─┬─► JSON                       report, advise, diff
//!                                                         ├─► exits, halts ─► RowBatch ──┬─► Table ─► pandas, polars, DuckDB, …
//!                                                         └─► rows of a Report ──────────┘
//! exitscope/__main__.py ─► exitscope::main_of                                            the command
//! ```
//!
//! Does not know: flags, which the package spells as the command has them.

mod arrow_exits;
mod report_rows;
mod table;

use arrow_exits::ArrowExits;
use exitscope::CommandLine;
use exitscope_analysis::Dimension;
use exitscope_columns::{ExitStrings, RowBatch};
use exitscope_model::{exit_columns, halt_columns};
use exitscope_trace::TraceError;
use exitscope_view::{GroupRow, Report, VcpuRow, place_names};
use pyo3::prelude::*;
use report_rows::table_of;
use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use table::ArrowTable;

pyo3::create_exception!(
    exitscope,
    Error,
    pyo3::exceptions::PyException,
    "What the command could not do, in the words that it prints."
);

/// A table, and what was lost or damaged, a sentence each.
type Told = (ArrowTable, Vec<String>);

/// What the package `exitscope` is made of.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::{ArrowTable, Error, check, command, exits, facts, halts, json, vcpus};
}

/// Runs the command with these arguments, of which the first is the program's name, and returns the code to exit with. The
/// interpreter starts it once more by the words of `started_by`.
#[pyfunction]
fn command(py: Python<'_>, arguments: Vec<OsString>, started_by: Vec<OsString>) -> u8 {
    py.detach(|| {
        exitscope::is_started_by(started_by);
        exitscope::main_of(arguments)
    })
}

/// Whether a file can be opened; what is wrong with what is in it, reading tells.
#[pyfunction]
fn check(path: PathBuf) -> PyResult<()> {
    let name = path.display().to_string();
    if name == "-" {
        return Err(Error::new_err("standard input can be read once only: put the recording into a file"));
    }
    File::open(path).map(drop).map_err(|source| told(TraceError::Io { name, source }.into()))
}

/// What a command line with `--format json` prints.
#[pyfunction]
fn json(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<String> {
    detached(py, || {
        let mut out = Vec::new();
        parse(&arguments)?.run(&mut out)?;
        Ok(String::from_utf8(out)?)
    })
}

/// The exits that a command line of `export` selects, of these columns or of all.
#[pyfunction]
fn exits(py: Python<'_>, arguments: Vec<OsString>, columns: Option<Vec<String>>) -> PyResult<Told> {
    detached(py, || {
        let columns = match columns {
            None => exit_columns(),
            Some(names) => chosen(&names)?,
        };
        let (exits, damage) = parse(&arguments)?.export_to(|vcpus| ArrowExits::new(&columns, vcpus))?;
        Ok((exits.into_table(), damage))
    })
}

/// The columns of these names, in this order.
fn chosen(names: &[String]) -> anyhow::Result<Vec<exitscope_model::Column<exitscope_model::ExitRow>>> {
    let mut left: Vec<_> = exit_columns().into_iter().map(Some).collect();
    let mut take = |name: &String| {
        let is_it = |column: &&mut Option<exitscope_model::Column<_>>| {
            column.as_ref().is_some_and(|column| column.name == name)
        };
        left.iter_mut().find(is_it).and_then(Option::take)
    };
    let known = || exit_columns().iter().map(|column| column.name).collect::<Vec<_>>().join(", ");
    let column = |name| {
        take(name).ok_or_else(|| anyhow::anyhow!("no column {name:?}, or it is named twice; there are {}", known()))
    };
    names.iter().map(column).collect()
}

/// The halts that a command line of `report` selects, a row for each vCPU.
#[pyfunction]
fn halts(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<Told> {
    detached(py, || {
        let (rows, damage) = parse(&arguments)?.halts()?;
        let mut batch = RowBatch::new(halt_columns().iter(), ExitStrings::Plain);
        rows.iter().for_each(|row| batch.push(row));
        Ok((ArrowTable::new(batch.schema(), vec![batch.take()?]), damage))
    })
}

/// The groups of exits of a command line of `report`.
#[pyfunction]
fn facts(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<Told> {
    detached(py, || {
        let report = parse(&arguments)?.report()?;
        Ok((table_of::<GroupRow>(&place_names(&report.by), &report.rows)?, damage(&report)))
    })
}

/// How the wall time of each vCPU divides, of a command line of `report`.
#[pyfunction]
fn vcpus(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<Told> {
    detached(py, || {
        let report = parse(&arguments)?.report()?;
        let places = place_names(&[Dimension::Vm, Dimension::Vcpu]);
        Ok((table_of::<VcpuRow>(&places, &report.vcpus)?, damage(&report)))
    })
}

/// Does it while other threads of Python run; what went wrong is an [`Error`].
fn detached<T: Send>(py: Python<'_>, what: impl FnOnce() -> anyhow::Result<T> + Send) -> PyResult<T> {
    py.detach(what).map_err(told)
}

/// An error as the command prints it.
fn told(error: anyhow::Error) -> PyErr {
    Error::new_err(exitscope_model::encode::message(&format!("{error:#}")))
}

fn parse(arguments: &[OsString]) -> anyhow::Result<CommandLine> {
    CommandLine::parse(arguments).map_err(|error| {
        // What follows is how to get help of the command.
        let text = error.render().to_string();
        let text = text.split("\n\nUsage:").next().unwrap_or_default();
        let text = text.split("\n\nFor more information").next().unwrap_or_default();
        anyhow::anyhow!("{}", text.trim_start_matches("error: ").trim_end())
    })
}

/// What was lost or damaged, a sentence each.
fn damage(report: &Report) -> Vec<String> {
    report.coverage.damage().map(ToString::to_string).collect()
}
