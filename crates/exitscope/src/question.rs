//! A question at the terminal.

use anyhow::bail;
use exitscope_signals::signalled;
use std::io::{self, BufRead, Write};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Whether whoever is at the terminal agrees. An error if a signal that is caught came instead.
pub fn agreed(out: &mut dyn Write) -> anyhow::Result<bool> {
    write!(out, "Go ahead? [y/N] ")?;
    out.flush()?;
    let answer = first_line(io::BufReader::new(io::stdin()), || signalled().is_some());
    if let Some(signal) = signalled() {
        writeln!(out)?;
        bail!("{signal} came; nothing was changed");
    }
    Ok(matches!(answer.unwrap_or_default().trim(), "y" | "Y" | "yes"))
}

/// The first line that comes, unless `is_over` first: a signal that is caught does not end reading.
fn first_line(mut from: impl BufRead + Send + 'static, is_over: impl Fn() -> bool) -> Option<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut line = String::new();
        let _ = sender.send(from.read_line(&mut line).map(|_| line));
    });
    loop {
        match receiver.recv_timeout(Duration::from_millis(50)) {
            Ok(line) => return line.ok(),
            Err(RecvTimeoutError::Timeout) if !is_over() => {}
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn an_answer_is_a_line_and_is_not_waited_for_once_a_signal_came() {
        assert_eq!(first_line(&b"y\nn\n"[..], || false).as_deref(), Some("y\n"));
        let (silent, _open) = UnixStream::pair().unwrap();
        assert_eq!(first_line(io::BufReader::new(silent), || true), None);
    }
}
