//! The parts of time as fields of JSON, each under the name of its column.

use exitscope_model::TimePart;
use schemars::JsonSchema;
use serde::Serialize;

/// A field for each part.
macro_rules! times {
    ($(#[$doc:meta])* $name:ident of $nanos:ty: $($field:ident $part:ident),*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
        pub struct $name {
            $(
                /// The part of this name, see [`TimePart`].
                #[schemars(description = TimePart::$part.prose())]
                pub $field: $nanos,
            )*
        }

        impl $name {
            /// The parts as fields.
            pub fn of(of: impl Fn(TimePart) -> $nanos) -> $name {
                $name { $($field: of(TimePart::$part)),* }
            }

            /// One of the parts.
            pub fn get(&self, part: TimePart) -> $nanos {
                match part {
                    $(TimePart::$part => self.$field,)*
                    #[allow(unreachable_patterns)]
                    _ => Default::default(),
                }
            }
        }
    };
}

times! {
    /// Where the time of an exit went, from exit to entry.
    ExitTimes of u64:
    kernel_ns Kernel, user_space_ns User, polling_ns Polling, halted_ns Halted, halt_not_divided_ns Undivided,
    waiting_for_memory_ns Memory, steal_ns Steal, stopped_ns Stopped, unknown_ns Unknown
}

times! {
    /// Where the time of many exits went; null where there are exits and none has a length.
    ExitSums of Option<u64>:
    kernel_ns Kernel, user_space_ns User, polling_ns Polling, halted_ns Halted, halt_not_divided_ns Undivided,
    waiting_for_memory_ns Memory, steal_ns Steal, stopped_ns Stopped, unknown_ns Unknown
}

times! {
    /// Where the time of a vCPU went. Together they are its span.
    VcpuTimes of u64:
    guest_ns Guest, kernel_ns Kernel, user_space_ns User, polling_ns Polling, halted_ns Halted, halt_not_divided_ns Undivided,
    waiting_for_memory_ns Memory, steal_ns Steal, stopped_ns Stopped, unknown_ns Unknown, excluded_ns Excluded
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::{AllParts, ExitParts};
    use exitscope_units::Nanos;
    use serde_json::json;

    #[test]
    fn fields_have_the_names_of_the_columns_and_the_values_of_the_parts() {
        let all = TimePart::ALL.iter().fold(AllParts::ZERO, |all, part| all.with(*part, Nanos(11 + *part as u64)));
        let times = serde_json::to_value(VcpuTimes::of(|part| all.get(part).0)).unwrap();
        let expected = TimePart::ALL.map(|part| (part.column().to_string(), json!(11 + part as u64)));
        assert_eq!(times, serde_json::Value::Object(expected.into_iter().collect()));

        let exit =
            TimePart::OF_EXITS.iter().fold(ExitParts::ZERO, |all, part| all.with(*part, Nanos(5 + *part as u64)));
        let of_exit = ExitTimes::of(|part| exit.get(part).0);
        let times = serde_json::to_value(of_exit).unwrap();
        assert_eq!(times, serde_json::to_value(ExitSums::of(|part| Some(exit.get(part).0))).unwrap());
        let expected = TimePart::OF_EXITS.map(|part| (part.column().to_string(), json!(5 + part as u64)));
        assert_eq!(times, serde_json::Value::Object(expected.into_iter().collect()));
        assert!(TimePart::ALL.iter().all(|&part| of_exit.get(part) == exit.get(part).0));
    }
}
