//! The table of mechanisms: each command of it prints what its cell claims.

mod common;

use common::{exitscope, kvm, stderr};
use exitscope_skips::or_skip;
use exitscope_view::{MECHANISM_COLUMNS, MECHANISMS, MechanismCell};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// What the commands of the lab print, or all others, each run once.
fn printed(in_lab: bool) -> BTreeMap<&'static str, Result<String, String>> {
    let cells = MECHANISMS.iter().flat_map(|row| row.cells).flatten();
    let commands = cells.filter_map(|cell| match cell {
        MechanismCell::Shown { arguments, .. } => Some(*arguments),
        MechanismCell::NotShown(_) => None,
    });
    let mut commands: Vec<&str> = commands.filter(|command| command.starts_with("lab ") == in_lab).collect();
    commands.sort_unstable();
    commands.dedup();
    let run = |command: &&'static str| {
        let output = exitscope().args(command.split(' ')).current_dir(common::root()).output().unwrap();
        let said = String::from_utf8(output.stdout.clone()).unwrap();
        // A sentence may be broken anywhere.
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        (*command, if output.status.success() { Ok(said) } else { Err(stderr(&output)) })
    };
    match in_lab {
        // Guests of two at a time would be in each other's way.
        true => commands.iter().map(run).collect(),
        false => commands.par_iter().map(run).collect(),
    }
}

/// The texts that commands do not print though their cells claim it.
fn missing(printed: &BTreeMap<&str, Result<String, String>>) -> Vec<String> {
    let mut missing = Vec::new();
    for row in MECHANISMS {
        for (column, cell) in
            MECHANISM_COLUMNS.iter().zip(row.cells).flat_map(|(of, cells)| cells.iter().map(move |cell| (of, cell)))
        {
            let MechanismCell::Shown { arguments, prints, .. } = cell else { continue };
            let at = format!("{}, {}, {column}: exitscope {arguments}", row.mechanism, row.item);
            match printed.get(arguments) {
                Some(Ok(text)) => {
                    missing.extend(
                        prints.iter().filter(|says| !text.contains(**says)).map(|says| format!("{at}: {says:?}")),
                    );
                }
                Some(Err(error)) => missing.push(format!("{at}: {error}")),
                None => {}
            }
        }
    }
    missing
}

#[test]
fn each_command_outside_the_lab_prints_what_its_cell_claims() {
    let missing = missing(&printed(false));
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn each_command_of_the_lab_prints_what_its_cell_claims() {
    or_skip!(kvm());
    let missing = missing(&printed(true));
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_cell_is_a_claim_that_can_fail_or_a_reason() {
    for row in MECHANISMS {
        for cells in row.cells {
            assert!(!cells.is_empty(), "{}", row.item);
            for cell in cells {
                match cell {
                    MechanismCell::Shown { what, prints, .. } => {
                        assert!(!what.is_empty() && prints.iter().all(|says| !says.is_empty()) && !prints.is_empty());
                    }
                    MechanismCell::NotShown(why) => assert!(why.len() > 40 && cells.len() == 1, "{}: {why}", row.item),
                }
            }
        }
    }
}
