//! Traces as people send them: quoted in a mail (`> `), or as the points of a list.

/// Marks that are put before lines.
const MARKS: &[u8] = b">|*-+";

/// The mark that most lines of a text begin with, if any; blanks may come before it. `>` needs no blank behind it.
pub(super) fn mark(head: &[u8]) -> Option<u8> {
    let lines = || head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let all = lines().count();
    MARKS.iter().copied().find(|&mark| {
        let marked = lines().filter(|line| {
            line[0] == mark && (mark == b'>' || line.get(1).is_none_or(|byte| byte.is_ascii_whitespace()))
        });
        marked.count() * 2 > all
    })
}

/// `line` without the marks before it, of which a quote of a quote has several, and the blank behind them.
pub(super) fn strip(line: &[u8], mark: u8) -> &[u8] {
    let mut text = line;
    while let Some(rest) = text.trim_ascii_start().strip_prefix(&[mark]) {
        text = rest;
        if mark != b'>' {
            break;
        }
    }
    match text.len() < line.len() {
        true => text.strip_prefix(b" ").unwrap_or(text),
        false => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_taken_off_where_most_lines_have_them() {
        let quoted = b">  qemu-1 [000] 1.0: kvm_entry: vcpu 0\n>>  a\n> > b\nSo it is.\n";
        assert_eq!(mark(quoted), Some(b'>'));
        assert_eq!(mark(b"          <idle>-0 [000] 1.0: x: y\n - z\nw\n"), None);
        assert_eq!(mark(b"* a\n  * b\n*c\n"), Some(b'*'));
        assert_eq!(strip(b">  qemu-1", b'>'), b" qemu-1");
        assert_eq!(strip(b">> > a", b'>'), b"a");
        assert_eq!(strip(b"  - -1 a", b'-'), b"-1 a");
        assert_eq!(strip(b"  a", b'>'), b"  a");
        assert_eq!(strip(b">", b'>'), b"");
    }
}
