//! What parts of time, reasons and phases look like: the one table for pages, text and `top`.
//!
//! ```text
//! PartLook ─┬─► Palette, light and dark ─► pages
//!           └─► a character, and a colour of 256 ─► text, top
//! ```
//!
//! Any two that can meet are told apart, also by people who see fewer colours: web/test/colors.test.mjs.

use exitscope_model::{ExitPhase, TimePart};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a part of time is drawn with.
struct PartLook {
    /// On light and on dark ground: a colour, after `/`, `\` or `:` hatched in it, that way, or dotted.
    fills: [&'static str; 2],
    /// In a terminal, and in one without Unicode.
    characters: [char; 2],
    /// The colour there, of the 256 that xterm numbers: near that on light ground, and seen on black, too.
    colour: u8,
}

/// A vCPU that has its CPU is filled, one that is blocked dotted; what else keeps it from running, and what is not known, is hatched.
const fn look(part: TimePart) -> PartLook {
    let (fills, characters, colour) = match part {
        TimePart::Guest => (["#88919a", "#6f7881"], ['█', '#'], 245),
        TimePart::Kernel => (["#306fb4", "#5b92d0"], ['▓', 'k'], 26),
        TimePart::User => (["#d94204", "#e3894d"], ['▒', 'u'], 166),
        TimePart::Polling => (["#9a981e", "#ecdc44"], ['◦', 'p'], 100),
        TimePart::Halted => ([":#88919a", ":#6f7881"], ['·', '.'], 245),
        TimePart::Undivided => ([":#525c66", ":#a9b3bb"], ['-', '-'], 241),
        TimePart::Memory => ([":#2286c0", ":#41c9f7"], ['m', 'm'], 32),
        TimePart::Steal => (["/#9a4f96", "/#b464bf"], ['░', 's'], 133),
        TimePart::Stopped => (["\\#7e7f45", "\\#77654f"], ['o', 'o'], 101),
        TimePart::Unknown => (["/#88919a", "/#8a949e"], ['?', '?'], 245),
        TimePart::Excluded => (["\\#b3261e", "\\#ff8a80"], ['x', 'x'], 124),
    };
    PartLook { fills, characters, colour }
}

/// Reasons that have a colour of their own, the costliest first, and what stands for all others.
const REASONS: [[&str; 8]; 2] = [
    ["#7670fb", "#a20d04", "#3b8f60", "#bf8801", "#085b71", "#a07692", "#290098", "#6b062e"],
    ["#a7dbf4", "#feb546", "#239603", "#ef72ff", "#db0178", "#ad9970", "#8365a7", "#a96267"],
];
const OTHER: [&str; 2] = ["#4e504c", "#acacac"];

/// Phases of an exit's cost, in their order.
const PHASES: [[&str; ExitPhase::ALL.len()]; 2] = [
    ["#2399f0", "#3144e2", "#a9886b", "#a15d0f", "#ed5c9a", "#004f3f"],
    ["#c99790", "#3966c2", "#fbdcb7", "#ac6b0f", "#5e9aa6", "#90f9f0"],
];

/// The character that a part is drawn with in a terminal.
pub fn part_character(part: TimePart, unicode: bool) -> char {
    let [wide, ascii] = look(part).characters;
    if unicode { wide } else { ascii }
}

/// A part's colour in a terminal, as xterm numbers 256 of them.
pub fn part_colour(part: TimePart) -> u8 {
    look(part).colour
}

/// The fills of pages.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Palette {
    light: Fills,
    dark: Fills,
}

/// Fills on one ground: colours; after `/`, `\` or `:` hatched in it, that way, or dotted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Fills {
    /// Of parts of time, by column.
    parts: BTreeMap<&'static str, &'static str>,
    /// Of reasons, the costliest first.
    reasons: [&'static str; 8],
    /// Of all other reasons, and of what else has no colour of its own.
    other: &'static str,
    /// Of the phases of an exit's cost, in their order.
    phases: [&'static str; ExitPhase::ALL.len()],
}

impl Palette {
    /// The one that there is.
    pub fn new() -> Palette {
        let fills = |ground: usize| Fills {
            parts: TimePart::ALL.into_iter().map(|part| (part.column(), look(part).fills[ground])).collect(),
            reasons: REASONS[ground],
            other: OTHER[ground],
            phases: PHASES[ground],
        };
        Palette { light: fills(0), dark: fills(1) }
    }
}

impl Default for Palette {
    fn default() -> Palette {
        Palette::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_parts_have_one_character() {
        for unicode in [true, false] {
            let all: BTreeSet<char> = TimePart::ALL.into_iter().map(|part| part_character(part, unicode)).collect();
            assert_eq!(all.len(), TimePart::ALL.len());
        }
    }
}
