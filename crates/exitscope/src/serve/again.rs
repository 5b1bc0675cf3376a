//! A served file read again for what its page does not hold.

use super::library::version;
use super::named_file::NamedFile;
use crate::cli::ReportArgs;
use crate::read;
use crate::report::symbols;
use exitscope_analysis::Selection;
use exitscope_page::{Question, Reread};
use exitscope_pipeline::read_alone;
use exitscope_trace::{Keep, Symbols};

/// The answer to a question, packed.
pub fn answer(file: &NamedFile, args: &ReportArgs, question: Question) -> anyhow::Result<Vec<u8>> {
    // As it was before: what is added meanwhile makes it another version.
    let version = version(file);
    let clock = &args.select.clock;
    let symbols = args.guestkallsyms.as_deref().map(symbols).transpose()?.unwrap_or_default();
    let input = file.input(clock)?;
    let options = read::options(clock, Keep::Timed, &Selection::default());
    let (trace, mut sink) = read_alone(&input, options, || Reread::new(question.clone()))?;
    sink.end(&trace.lanes, &trace.vcpu_of);
    Ok(sink.finish(version, &trace.info, |rip| Symbols::function(&symbols, rip))?)
}
