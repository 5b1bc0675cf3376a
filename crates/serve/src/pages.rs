//! What is where: pages by the number of their file, never by a name out of a request.
//!
//! ```text
//! /  the files, or to /live     /files  their list, as JSON
//! /page/N   /data/N   /notes/N  a file's page, what it shows, and notes when the file changes
//! /single/N/…   /groups/N/…    what the page does not hold of it (crates/page/src/reread.rs)
//! /diff/N/M   /diff/N/M/data    one file compared with another
//! /live   /live/data   /live/notes
//! /fleet  /fleet/data           a store
//! /healthz                      whether somebody answers
//! ```

use crate::fresh::Fresh;
use crate::library::Library;
use crate::live::LiveView;
use exitscope_http::{Answer, Asked, Bytes, Count, HeaderName, HeaderValue, Place, Site, StatusCode};
use exitscope_page::{Addresses, NoAnswer, Question, served_page};
use std::pin::Pin;
use std::rc::Rc;

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const PACKED: &str = "application/gzip";

/// What is served.
pub enum Shown {
    /// Recordings.
    Files(Rc<Library>),
    /// What happens now.
    Live(Rc<LiveView>),
    /// A store.
    Store(Rc<Fresh>),
}

/// The server's pages.
pub struct Pages {
    shown: Shown,
}

/// What a path names.
#[derive(Clone, Copy)]
enum Named {
    Health,
    Index,
    Files,
    Page(usize),
    Data(usize),
    Notes(usize),
    Question(usize),
    DiffPage(usize, usize),
    DiffData(usize, usize),
    LivePage,
    LiveData,
    LiveNotes,
    FleetPage,
    FleetData,
}

impl Pages {
    /// The pages of what is shown.
    pub fn new(shown: Shown) -> Pages {
        Pages { shown }
    }

    fn named(&self, path: &str) -> Option<Named> {
        if path == "/healthz" {
            return Some(Named::Health);
        }
        let library = match &self.shown {
            Shown::Live(_) => {
                return match path {
                    "/" => Some(Named::Index),
                    "/live" => Some(Named::LivePage),
                    "/live/data" => Some(Named::LiveData),
                    "/live/notes" => Some(Named::LiveNotes),
                    _ => None,
                };
            }
            Shown::Store(_) => {
                return match path {
                    "/" => Some(Named::Index),
                    "/fleet" => Some(Named::FleetPage),
                    "/fleet/data" => Some(Named::FleetData),
                    _ => None,
                };
            }
            Shown::Files(library) => library,
        };
        let number = |text: &str| {
            let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|&number| plain && number < library.len())
        };
        match path {
            "/" => Some(Named::Index),
            "/files" => Some(Named::Files),
            _ => {
                let (what, text) = path.strip_prefix('/')?.split_once('/')?;
                if what == "diff" {
                    let (before, rest) = text.split_once('/')?;
                    return match rest.strip_suffix("/data") {
                        Some(after) => Some(Named::DiffData(number(before)?, number(after)?)),
                        None => Some(Named::DiffPage(number(before)?, number(rest)?)),
                    };
                }
                if let "single" | "groups" = what {
                    return Some(Named::Question(number(text.split_once('/')?.0)?));
                }
                let number = number(text)?;
                match what {
                    "page" => Some(Named::Page(number)),
                    "data" => Some(Named::Data(number)),
                    "notes" => Some(Named::Notes(number)),
                    _ => None,
                }
            }
        }
    }
}

impl Site for Pages {
    fn place(&self, path: &str) -> Place {
        match self.named(path) {
            None => Place::None,
            Some(Named::Health) => Place::Open,
            Some(_) => Place::Guarded,
        }
    }

    fn is_watching(&self, path: &str) -> bool {
        matches!(self.named(path), Some(Named::Health))
    }

    fn answer(self: Rc<Self>, asked: Asked) -> impl Future<Output = Answer> + 'static {
        let Some(named) = self.named(&asked.path) else { return whole(Answer::text(StatusCode::NOT_FOUND, "")) };
        let answer: Pin<Box<dyn Future<Output = Answer>>> = match (&self.shown, named) {
            (_, Named::Health) => whole(Answer::text(StatusCode::OK, "ok\n")),
            (Shown::Live(_), Named::Index) => whole(Answer::see("/live")),
            (Shown::Live(live), Named::LivePage) => {
                let (data, notes) = (Some("/live/data"), Some("/live/notes"));
                let addresses = Addresses { data, notes, keep_ns: Some(live.keep()), ..Addresses::default() };
                whole(page("live", &addresses))
            }
            (Shown::Live(live), Named::LiveNotes) => whole(Answer::notes(live.notes(), asked.last_note)),
            (Shown::Live(live), _) => {
                let live = live.clone();
                Box::pin(async move { packed(live.data().await) })
            }
            (Shown::Store(_), Named::Index) => whole(Answer::see("/fleet")),
            (Shown::Store(_), Named::FleetPage) => {
                whole(page("fleet", &Addresses { data: Some("/fleet/data"), ..Addresses::default() }))
            }
            (Shown::Store(stored), _) => {
                let stored = stored.clone();
                Box::pin(async move { packed_or_wait(stored.data().await) })
            }
            (Shown::Files(library), Named::Page(number)) => {
                let [data, notes, single, groups] =
                    ["data", "notes", "single", "groups"].map(|what| format!("/{what}/{number}"));
                let addresses = Addresses {
                    data: Some(&data),
                    notes: Some(&notes),
                    single: Some(&single),
                    groups: Some(&groups),
                    files: Some("/files"),
                    ..Addresses::default()
                };
                whole(page(&library.name(number), &addresses))
            }
            (Shown::Files(library), Named::Data(number)) => {
                let library = library.clone();
                Box::pin(async move { packed_or_wait(library.data(number).await) })
            }
            (Shown::Files(library), Named::Notes(number)) => {
                whole(Answer::notes(library.notes(number), asked.last_note))
            }
            (Shown::Files(library), Named::DiffPage(before, after)) => {
                let data = format!("/diff/{before}/{after}/data");
                let addresses = Addresses { data: Some(&data), files: Some("/files"), ..Addresses::default() };
                whole(page(&format!("{} and {}", library.name(before), library.name(after)), &addresses))
            }
            (Shown::Files(library), Named::DiffData(before, after)) => match library.compared(before, after) {
                Some(compared) => Box::pin(async move { packed_or_wait(compared.data().await) }),
                None => whole(too_many("comparisons")),
            },
            (Shown::Files(library), Named::Question(number)) => match question(&asked.path) {
                Ok(question) => match library.answered(number, &question) {
                    Some(answered) => Box::pin(async move { packed_or_wait(answered.data().await) }),
                    None => whole(too_many("answers")),
                },
                Err(wrong) => whole(Answer::text(StatusCode::BAD_REQUEST, format!("{wrong}\n"))),
            },
            (Shown::Files(library), Named::Files) => {
                let library = library.clone();
                Box::pin(async move { Answer::of(StatusCode::OK, JSON, library.list().await) })
            }
            (Shown::Files(_), _) => {
                whole(page("recordings", &Addresses { files: Some("/files"), ..Addresses::default() }))
            }
        };
        answer
    }

    fn turn(self: &Rc<Self>) {
        if let Shown::Files(library) = &self.shown {
            library.turn();
        }
    }

    fn count(&self, _what: Count) {}
}

fn whole(answer: Answer) -> Pin<Box<dyn Future<Output = Answer>>> {
    Box::pin(std::future::ready(answer))
}

fn page(title: &str, addresses: &Addresses) -> Answer {
    match served_page(title, addresses) {
        Some((page, policy)) => {
            let policy = HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"));
            let name = HeaderName::from_static("content-security-policy");
            Answer::of(StatusCode::OK, HTML, page).with(name, policy)
        }
        None => Answer::text(StatusCode::INTERNAL_SERVER_ERROR, "There is no front end.\n"),
    }
}

/// What is asked for by the path `/WHAT/N/…`.
fn question(path: &str) -> Result<Question, NoAnswer> {
    let words: Vec<&str> = path.split('/').skip(1).collect();
    let words: Vec<&str> = words.iter().take(1).chain(words.iter().skip(2)).copied().collect();
    words.join("/").parse()
}

fn too_many(what: &str) -> Answer {
    let text = format!("Too many {what} are in progress: try again later.\n");
    let after = HeaderValue::from_static("10");
    Answer::text(StatusCode::SERVICE_UNAVAILABLE, text).with(HeaderName::from_static("retry-after"), after)
}

/// Data, or that it takes long.
fn packed_or_wait(data: Option<Result<(String, Bytes), String>>) -> Answer {
    let wait = || Answer::text(StatusCode::ACCEPTED, "It is still being read: ask again.\n");
    data.map_or_else(wait, packed)
}

/// Data of this version, or why there is none.
fn packed(data: Result<(String, Bytes), String>) -> Answer {
    match data {
        Ok((version, bytes)) => match HeaderValue::from_str(&format!("\"{version}\"")) {
            Ok(version) => Answer::of(StatusCode::OK, PACKED, bytes).with(HeaderName::from_static("etag"), version),
            Err(_) => Answer::of(StatusCode::OK, PACKED, bytes),
        },
        Err(trouble) => Answer::text(StatusCode::UNPROCESSABLE_ENTITY, format!("{trouble}\n")),
    }
}
