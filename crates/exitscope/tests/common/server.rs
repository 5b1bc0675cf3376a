//! `exitscope serve` and `exitscope exporter` at work.

use super::{cannot_trace, exitscope, page_data};
use exitscope_skips::{Part, Skipped, need};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long things may take that take no time on a quiet machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A server at work, killed when dropped.
pub struct Server {
    pub child: Child,
    /// Behind the scheme: address, port, path.
    pub url: String,
}

impl Server {
    /// Starts `serve`; what it said, if it could not.
    pub fn start(flags: &[&str]) -> Result<Server, String> {
        Server::start_command("serve", flags)
    }

    /// Starts a command that serves; what it said, if it could not.
    pub fn start_command(command: &str, flags: &[&str]) -> Result<Server, String> {
        let mut server = exitscope();
        server.args([command, "--listen", "127.0.0.1:0"]).args(flags).stderr(Stdio::piped());
        let mut child = server.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut all = String::new();
        while said.read_line(&mut all).unwrap() > 0 {
            if let Some((_, rest)) = all.split_once("serving http://") {
                return Ok(Server { child, url: rest.trim_end().to_string() });
            }
        }
        child.wait().unwrap();
        Err(all)
    }

    /// Head and body of the answer.
    pub fn get_with(&self, path: &str, headers: &str) -> (String, Vec<u8>) {
        self.get_by_name("localhost", path, headers)
    }

    /// The same for who asks the server by this name.
    pub fn get_by_name(&self, name: &str, path: &str, headers: &str) -> (String, Vec<u8>) {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: {name}\r\n{headers}\r\n"), b"")
    }

    /// The same of what is posted; fewer bytes may be sent than the head promises.
    pub fn post(&self, path: &str, headers: &str, promised: usize, body: &[u8]) -> (String, Vec<u8>) {
        let length = format!("Content-Length: {promised}\r\n");
        self.ask(&format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{length}{headers}\r\n"), body)
    }

    /// The head of the answer to a post of which nothing says how long it is; empty if the server ended the connection before.
    pub fn post_chunks(&self, path: &str, headers: &str, chunks: &[&str]) -> String {
        let mut stream = TcpStream::connect(self.url.split('/').next().unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n{headers}\r\n");
        let sent = stream.write_all(head.as_bytes());
        let _ = sent.and_then(|()| chunks.iter().try_for_each(|chunk| stream.write_all(chunk.as_bytes())));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_string()
    }

    fn ask(&self, head: &str, body: &[u8]) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(self.url.split('/').next().unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        // Of a body that it does not read, the server ends the connection at once.
        let read = stream.read_to_end(&mut answer);
        assert!(read.is_ok() || !body.is_empty() && !answer.is_empty(), "{read:?}");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        (String::from_utf8(answer[..end].to_vec()).unwrap(), answer[end + 4..].to_vec())
    }

    pub fn get(&self, path: &str) -> (String, Vec<u8>) {
        self.get_with(path, "")
    }

    pub fn status(&self, path: &str, headers: &str) -> u16 {
        self.get_with(path, headers).0.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// Id and text of the notes at this path, as they come.
    pub fn notes(&self, path: &str) -> impl Iterator<Item = (String, serde_json::Value)> {
        let mut stream = TcpStream::connect(self.url.split('/').next().unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut id = String::new();
        BufReader::new(stream).lines().filter_map(move |line| {
            let line = line.unwrap();
            if let Some(of_next) = line.strip_prefix("id: ") {
                id = of_next.to_string();
            }
            Some((id.clone(), serde_json::from_str(line.strip_prefix("data: ")?).unwrap()))
        })
    }

    /// What a page is told about where what it shows is.
    pub fn addresses(&self, path: &str) -> serde_json::Value {
        let page = String::from_utf8(self.get(path).1).unwrap();
        let json = &page[page.rfind(">{\"").unwrap() + 1..];
        let mut told: serde_json::Value = serde_json::Deserializer::from_str(json).into_iter().next().unwrap().unwrap();
        told.as_object_mut().unwrap().remove("version").unwrap();
        told
    }

    /// What a page shows, which is of this kind.
    pub fn page(&self, path: &str, kind: &str) -> serde_json::Value {
        let (head, packed) = self.get(path);
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}\n{}", String::from_utf8_lossy(&packed));
        let json = page_data(&packed);
        assert_eq!(json["kind"], kind);
        json
    }

    /// What a page shows of this kind.
    pub fn shown(&self, path: &str, kind: &str) -> serde_json::Value {
        self.page(path, kind)[kind].take()
    }

    /// The report in a page's data.
    pub fn report(&self, path: &str) -> serde_json::Value {
        self.shown(path, "report")
    }

    /// Asks it to end, and waits until it has.
    pub fn end(mut self, signal: &str) -> i32 {
        assert!(Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success());
        self.child.wait().unwrap().code().expect("it ends by itself")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This build has pages.
pub fn front_end() -> Result<(), Skipped> {
    need(exitscope_page::is_built(), Part::FrontEnd, "no front end of pages; `make page` builds it")
}

/// A live server of one process.
pub fn live(process: u32, flags: &[&str]) -> Result<Server, Skipped> {
    let process = process.to_string();
    let flags = [&["--live", "--pid", &process, "--buffer", "16M"], flags].concat();
    Server::start(&flags).map_err(cannot_trace)
}

/// Ends a guest that nobody watches.
pub fn end(guest: &mut Child) {
    guest.kill().unwrap();
    guest.wait().unwrap();
}
