//! Prints docs/scenario.md.

fn main() {
    print!("{}", exitscope_scenario::text::page());
}
