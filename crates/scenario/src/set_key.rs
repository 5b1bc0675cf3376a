//! Keys as `--set` takes them.

/// A key of `--set` as the file has it: `delay` and what begins with `cost` are short for keys of `[costs]`.
pub(crate) fn written_out(key: &str) -> String {
    let keys: Vec<&str> = key.trim().split('.').map(str::trim).collect();
    match &keys[..] {
        ["delay"] => "costs.delay".to_string(),
        ["cost", rest @ ..] => [&["costs"], rest].concat().join("."),
        keys => keys.join("."),
    }
}
