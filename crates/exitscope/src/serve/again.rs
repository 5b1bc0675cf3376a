//! A served file read again for what its page does not hold.

use super::library::version;
use super::named_file::NamedFile;
use crate::cli::ReportArgs;
use crate::read::{self, Earlier, Sink};
use crate::report::symbols;
use exitscope_model::{Exit, Preemption, Stretch, ThreadWakeUp};
use exitscope_page::{Question, Reread};
use exitscope_trace::{Keep, Symbols};
use exitscope_units::Moment;

/// The answer to a question, packed.
pub fn answer(file: &NamedFile, args: &ReportArgs, question: Question) -> anyhow::Result<Vec<u8>> {
    // As it was before: what is added meanwhile makes it another version.
    let version = version(file);
    let clock = &args.select.clock;
    let symbols = args.guestkallsyms.as_deref().map(symbols).transpose()?.unwrap_or_default();
    let input = file.input(clock)?;
    let mut earlier = Earlier::of_run(&[input.try_clone()?]);
    let fresh = || Reread::new(question.clone());
    let (trace, mut sink) = read::read_input(input, &mut earlier, false, clock.options(Keep::Timed), fresh)?;
    sink.end(&trace.lanes, &trace.vcpu_of);
    Ok(sink.finish(version, &trace.info, |rip| Symbols::function(&symbols, rip))?)
}

impl Sink for Reread {
    fn begin(&mut self, first: Moment) {
        Reread::begin(self, first);
    }

    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        Reread::absorb(self, exit);
    }

    fn stretch(&mut self, of: &Stretch) {
        self.absorb_stretch(of);
    }

    fn preempted(&mut self, of: &Preemption) {
        self.absorb_preemption(of);
    }

    fn woken(&mut self, of: &ThreadWakeUp) {
        self.absorb_wake_up(of);
    }

    fn is_full(&self) -> bool {
        Reread::is_full(self)
    }
}
