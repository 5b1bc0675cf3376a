//! The command `exitscope`. All of it is in the library beside it, so that it can be run in process, too.

fn main() -> std::process::ExitCode {
    exitscope::main()
}
