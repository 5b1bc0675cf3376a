//! Single exits, as a page holds them: the chunks of [`SingleExits`], each with the waits for a CPU that ended in its time behind it.

use crate::cpu_waits::{self, ThreadRow, push_waits};
use exitscope_analysis::over_time::{Chunk, SingleExits, THREADS};
use exitscope_model::TimePart;
use exitscope_units::Tid;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// What is kept of single exits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SingleExitsHead {
    /// Exits that there are; all of them are kept if that is the sum of the chunks' rows.
    exits: u64,
    /// Columns of each chunk that are packed one number an exit: begin, vCPU, cause, user space, CPU, place in the guest, …
    columns: Vec<&'static str>,
    /// Where in the page the vCPUs of that column are, and the causes: one vCPU may have several numbers here.
    lanes: Vec<u32>,
    causes: Vec<u32>,
    /// Those of the columns that are packed byte by byte of their numbers.
    planes: [&'static str; 2],
    #[serde(flatten)]
    pub(crate) places: Places,
    /// The other parts of exits, by the bits of the last of these columns, from the lowest on.
    parts: Vec<&'static str>,
    /// Columns of the waits for a CPU behind those of exits, and those of them that are packed byte by byte.
    wait_columns: [&'static str; 5],
    wait_planes: [&'static str; 2],
    /// Threads that took vCPUs' CPUs or woke vCPUs; the number behind the last of them stands for all further.
    threads: Vec<ThreadRow>,
    chunks: Vec<SingleChunk>,
}

/// Places in guests.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Places {
    /// Instruction pointers, in hexadecimal.
    #[serde(serialize_with = "in_hexadecimal")]
    #[schemars(with = "Vec<String>")]
    rips: Vec<u64>,
    /// The guest's functions, where they are known; and of each place, its function's place in this list + 1 (0: of none of them), and
    /// how far from where that begins it is.
    functions: Vec<String>,
    rip_functions: Vec<usize>,
    rip_offsets: Vec<u64>,
}

/// Exits that ended one after the other.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct SingleChunk {
    rows: usize,
    /// When the first of them began, from the page's begin on.
    first_ns: u64,
    /// What ended in this time is in the chunk.
    from_ns: u64,
    to_ns: u64,
    /// Length of its columns.
    bytes: usize,
    /// Waits for a CPU that ended in this time; absent where they are left out.
    waits: Option<usize>,
}

/// As text: a double has no room for them.
fn in_hexadecimal<S: Serializer>(rips: &[u64], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(rips.iter().map(|rip| format!("{rip:#x}")))
}

impl Places {
    /// Without names.
    pub fn new(rips: &[u64]) -> Places {
        Places { rips: rips.to_vec(), ..Places::default() }
    }

    /// Names them by the functions that hold them: where these begin, and their names.
    pub fn name<'a>(&mut self, function: impl Fn(u64) -> Option<(u64, &'a str)>) {
        let mut numbers = FxHashMap::default();
        let found = self.rips.iter().map(|rip| {
            function(*rip).map_or((0, 0), |(start, name)| {
                let number = *numbers.entry(start).or_insert_with(|| {
                    self.functions.push(name.to_string());
                    self.functions.len()
                });
                (number, rip - start)
            })
        });
        (self.rip_functions, self.rip_offsets) = found.unzip();
    }
}

impl SingleExitsHead {
    /// What a page holds of them, counted from `base`; `lane` and `cause` say where vCPUs and causes are in the page, `thread` what is known of
    /// one. Appends the columns to `bytes`. `None` if there are none.
    pub fn of(
        mut singles: SingleExits,
        base: u64,
        (lane, cause, thread): (impl Fn(u32) -> u32, impl Fn(u32) -> u32, impl Fn(Tid) -> ThreadRow),
        bytes: &mut Vec<u8>,
    ) -> Option<SingleExitsHead> {
        singles.end();
        if singles.exits == 0 {
            return None;
        }
        let after = |at: u64| at.saturating_sub(base);
        let chunk = |chunk: &Chunk| {
            let began = bytes.len();
            bytes.extend(&chunk.columns);
            let waits = chunk.cpu_waits.as_deref();
            let thread = |tid| Some(singles.threads.find(&tid).unwrap_or(THREADS));
            push_waits(bytes, chunk.first, waits.unwrap_or_default(), thread);
            SingleChunk {
                rows: chunk.rows,
                first_ns: after(chunk.first),
                from_ns: after(chunk.from),
                to_ns: after(chunk.to),
                bytes: bytes.len() - began,
                waits: waits.map(<[_]>::len),
            }
        };
        let chunks = singles.chunks.iter().map(chunk).collect();
        let [kernel, user] = [TimePart::Kernel, TimePart::User].map(TimePart::column);
        Some(SingleExitsHead {
            exits: singles.exits,
            columns: vec!["begin", "lane", "cause", "to_user", "cpu", "rip", kernel, user, "others"],
            lanes: (0..singles.below.0).map(lane).collect(),
            causes: (0..singles.below.1).map(cause).collect(),
            planes: ["begin", kernel],
            places: Places::new(singles.rips.keys()),
            parts: TimePart::BESIDE_COST.map(TimePart::column).to_vec(),
            wait_columns: cpu_waits::COLUMNS,
            wait_planes: cpu_waits::PLANES,
            threads: singles.threads.keys().iter().map(|tid| thread(*tid)).collect(),
            chunks,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_text_and_have_the_functions_that_hold_them() {
        let mut places = Places::new(&[0xffff_ffff_8100_0010, 7, 0xffff_ffff_8100_0020]);
        places.name(|rip| (rip > 7).then_some((0xffff_ffff_8100_0000, "halt")));
        let expected = serde_json::json!({
            "rips": ["0xffffffff81000010", "0x7", "0xffffffff81000020"],
            "functions": ["halt"],
            "rip_functions": [1, 0, 1],
            "rip_offsets": [16, 0, 32],
        });
        assert_eq!(serde_json::to_value(&places).unwrap(), expected);
    }
}
