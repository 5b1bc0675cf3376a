//! What is where: pages by the number of their file, never by a name out of a request.
//!
//! ```text
//! /  the files, or to /live     /files  their list, as JSON
//! /page/N   /data/N   /notes/N  a file's page, what it shows, and notes when the file changes
//! /single/N/…   /groups/N/…    what the page does not hold of it (crates/page/src/reread.rs)
//! /diff/N/M   /diff/N/M/data    one file compared with another
//! /paste  a box for a table of another tool, and what is said of it
//! /live   /live/data   /live/notes
//! /fleet  /fleet/data           a store
//! /healthz                      whether somebody answers
//! ```

use crate::cached_page::CachedPage;
use crate::live_capture::LiveView;
use crate::served_files::ServedFiles;
use crate::{HTML, paste};
use exitscope_http::{
    Bytes, HeaderName, HeaderValue, HttpRequest, PathAccess, Reply, RequestHandler, ServerEvent, StatusCode,
};
use exitscope_page::{NoAnswer, Question, ServedUrls, served_page};
use std::pin::Pin;
use std::rc::Rc;

const JSON: &str = "application/json";
const PACKED: &str = "application/gzip";

/// What is served.
pub enum ServedContent {
    /// Recordings.
    Files(Rc<ServedFiles>),
    /// What happens now.
    Live(Rc<LiveView>),
    /// A store.
    Store(Rc<CachedPage>),
}

/// The server's pages.
pub struct Pages {
    shown: ServedContent,
}

/// What a path names.
#[derive(Clone, Copy)]
enum Named {
    Health,
    Index,
    Files,
    Paste,
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
    pub fn new(shown: ServedContent) -> Pages {
        Pages { shown }
    }

    fn named(&self, path: &str) -> Option<Named> {
        if path == "/healthz" {
            return Some(Named::Health);
        }
        let library = match &self.shown {
            ServedContent::Live(_) => {
                return match path {
                    "/" => Some(Named::Index),
                    "/live" => Some(Named::LivePage),
                    "/live/data" => Some(Named::LiveData),
                    "/live/notes" => Some(Named::LiveNotes),
                    _ => None,
                };
            }
            ServedContent::Store(_) => {
                return match path {
                    "/" => Some(Named::Index),
                    "/fleet" => Some(Named::FleetPage),
                    "/fleet/data" => Some(Named::FleetData),
                    _ => None,
                };
            }
            ServedContent::Files(library) => library,
        };
        let number = |text: &str| {
            let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|&number| plain && number < library.len())
        };
        match path {
            "/" => Some(Named::Index),
            "/files" => Some(Named::Files),
            "/paste" => Some(Named::Paste),
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

impl RequestHandler for Pages {
    fn path_access(&self, path: &str) -> PathAccess {
        match self.named(path) {
            None => PathAccess::None,
            Some(Named::Health) => PathAccess::Open,
            Some(_) => PathAccess::Guarded,
        }
    }

    fn most_posted(&self, path: &str) -> usize {
        if matches!(self.named(path), Some(Named::Paste)) { paste::MOST } else { 0 }
    }

    fn is_watching(&self, path: &str) -> bool {
        matches!(self.named(path), Some(Named::Health))
    }

    fn answer(self: Rc<Self>, asked: HttpRequest) -> impl Future<Output = Reply> + 'static {
        let Some(named) = self.named(&asked.path) else { return whole(Reply::text(StatusCode::NOT_FOUND, "")) };
        let answer: Pin<Box<dyn Future<Output = Reply>>> = match (&self.shown, named) {
            (_, Named::Health) => whole(Reply::text(StatusCode::OK, "ok\n")),
            (ServedContent::Live(_), Named::Index) => whole(Reply::redirect_to("/live")),
            (ServedContent::Live(live), Named::LivePage) => {
                let (data, notes) = (Some("/live/data"), Some("/live/notes"));
                let addresses = ServedUrls { data, notes, keep_ns: Some(live.keep()), ..ServedUrls::default() };
                whole(page("live", &addresses))
            }
            (ServedContent::Live(live), Named::LiveNotes) => whole(Reply::event_stream(live.notes(), asked.last_note)),
            (ServedContent::Live(live), _) => {
                let live = live.clone();
                Box::pin(async move { packed_or_wait(live.data().await) })
            }
            (ServedContent::Store(_), Named::Index) => whole(Reply::redirect_to("/fleet")),
            (ServedContent::Store(_), Named::FleetPage) => {
                whole(page("fleet", &ServedUrls { data: Some("/fleet/data"), ..ServedUrls::default() }))
            }
            (ServedContent::Store(stored), _) => {
                let stored = stored.clone();
                Box::pin(async move { packed_or_wait(stored.data().await) })
            }
            (ServedContent::Files(library), Named::Page(number)) => {
                let [data, notes, single, groups] =
                    ["data", "notes", "single", "groups"].map(|what| format!("/{what}/{number}"));
                let addresses = ServedUrls {
                    data: Some(&data),
                    notes: Some(&notes),
                    single: Some(&single),
                    groups: Some(&groups),
                    files: Some("/files"),
                    ..ServedUrls::default()
                };
                whole(page(&library.name(number), &addresses))
            }
            (ServedContent::Files(library), Named::Data(number)) => {
                let library = library.clone();
                Box::pin(async move { packed_or_wait(library.data(number).await) })
            }
            (ServedContent::Files(library), Named::Notes(number)) => {
                whole(Reply::event_stream(library.notes(number), asked.last_note))
            }
            (ServedContent::Files(library), Named::DiffPage(before, after)) => {
                let data = format!("/diff/{before}/{after}/data");
                let addresses = ServedUrls { data: Some(&data), files: Some("/files"), ..ServedUrls::default() };
                whole(page(&format!("{} and {}", library.name(before), library.name(after)), &addresses))
            }
            (ServedContent::Files(library), Named::DiffData(before, after)) => match library.compared(before, after) {
                Some(compared) => Box::pin(async move { packed_or_wait(compared.data().await) }),
                None => whole(too_many("comparisons")),
            },
            (ServedContent::Files(library), Named::Question(number)) => match question(&asked.path) {
                Ok(question) => match library.answered(number, &question) {
                    Some(answered) => Box::pin(async move { packed_or_wait(answered.data().await) }),
                    None => whole(too_many("answers")),
                },
                Err(wrong) => whole(Reply::text(StatusCode::BAD_REQUEST, format!("{wrong}\n"))),
            },
            (ServedContent::Files(library), Named::Paste) => paste::answer(library.recordings(), asked.posted),
            (ServedContent::Files(library), Named::Files) => {
                let library = library.clone();
                Box::pin(async move { Reply::of(StatusCode::OK, JSON, library.list().await) })
            }
            (ServedContent::Files(_), _) => whole(list_page()),
        };
        answer
    }

    fn poll_changes(self: &Rc<Self>) {
        if let ServedContent::Files(library) = &self.shown {
            library.turn();
        }
    }

    fn count(&self, _what: ServerEvent) {}
}

fn whole(answer: Reply) -> Pin<Box<dyn Future<Output = Reply>>> {
    Box::pin(std::future::ready(answer))
}

/// The list of recordings, below which is the box for a pasted table.
fn list_page() -> Reply {
    let list = ServedUrls { files: Some("/files"), ..ServedUrls::default() };
    let (referrer, own) = paste::FROM_OWN_PAGE;
    page_with("recordings", &list, paste::FORMS_OF_LIST).with(referrer, own)
}

fn page(title: &str, addresses: &ServedUrls) -> Reply {
    page_with(title, addresses, paste::NO_FORMS)
}

/// A page whose forms may go where this part of its policy says.
fn page_with(title: &str, addresses: &ServedUrls, forms: &str) -> Reply {
    match served_page(title, addresses) {
        Some((page, policy)) => {
            let policy = HeaderValue::from_str(&policy.replace(paste::NO_FORMS, forms))
                .unwrap_or(HeaderValue::from_static("default-src 'none'"));
            let name = HeaderName::from_static("content-security-policy");
            Reply::of(StatusCode::OK, HTML, page).with(name, policy)
        }
        None => Reply::text(StatusCode::INTERNAL_SERVER_ERROR, "There is no front end.\n"),
    }
}

/// What is asked for by the path `/WHAT/N/…`.
fn question(path: &str) -> Result<Question, NoAnswer> {
    let words: Vec<&str> = path.split('/').skip(1).collect();
    let words: Vec<&str> = words.iter().take(1).chain(words.iter().skip(2)).copied().collect();
    words.join("/").parse()
}

fn too_many(what: &str) -> Reply {
    let text = format!("Too many {what} are in progress: try again later.\n");
    let after = HeaderValue::from_static("10");
    Reply::text(StatusCode::SERVICE_UNAVAILABLE, text).with(HeaderName::from_static("retry-after"), after)
}

/// Data, or that it takes long.
fn packed_or_wait(data: Option<Result<(String, Bytes), String>>) -> Reply {
    let wait = || Reply::text(StatusCode::ACCEPTED, "It is still being read: ask again.\n");
    data.map_or_else(wait, packed)
}

/// Data of this version, or why there is none.
fn packed(data: Result<(String, Bytes), String>) -> Reply {
    match data {
        Ok((version, bytes)) => match HeaderValue::from_str(&format!("\"{version}\"")) {
            Ok(version) => Reply::of(StatusCode::OK, PACKED, bytes).with(HeaderName::from_static("etag"), version),
            Err(_) => Reply::of(StatusCode::OK, PACKED, bytes),
        },
        Err(trouble) => Reply::text(StatusCode::UNPROCESSABLE_ENTITY, format!("{trouble}\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NamedFile;
    use crate::served_files::tests::Alike;
    use std::path::Path;
    use std::sync::Arc;

    /// Of two recordings.
    fn of_files() -> Pages {
        let trace = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/x86-svm/t2.data.gz"));
        let files = vec![NamedFile::find(trace).unwrap(); 2];
        Pages::new(ServedContent::Files(ServedFiles::new(files, Arc::new(Alike::default()))))
    }

    fn of_store() -> Pages {
        Pages::new(ServedContent::Store(Rc::new(CachedPage::new(Arc::new(|| Ok(Vec::new()))))))
    }

    #[test]
    fn a_path_is_for_everybody_or_for_who_may_or_nothing() {
        let of_files = of_files();
        for path in [
            "/",
            "/files",
            "/paste",
            "/page/0",
            "/page/1",
            "/data/1",
            "/notes/1",
            "/diff/0/1",
            "/diff/1/0/data",
            "/single/1/0/1",
            "/groups/0/0/1",
        ] {
            assert_eq!(of_files.path_access(path), PathAccess::Guarded, "{path}");
        }
        for path in
            ["/page/2", "/page/", "/page/+1", "/data/x1", "/diff/0", "/diff/0/2", "/single/2/0/1", "/other/0", "/live"]
        {
            assert_eq!(of_files.path_access(path), PathAccess::None, "{path}");
        }
        let of_store = of_store();
        for path in ["/", "/fleet", "/fleet/data"] {
            assert_eq!(of_store.path_access(path), PathAccess::Guarded, "{path}");
            assert!(!of_store.is_watching(path), "{path}");
        }
        for path in ["/files", "/paste", "/page/0", "/live"] {
            assert_eq!(of_store.path_access(path), PathAccess::None, "{path}");
        }
        for pages in [of_files, of_store] {
            assert_eq!(pages.path_access("/healthz"), PathAccess::Open);
            assert!(pages.is_watching("/healthz"));
        }
    }

    #[test]
    fn only_the_box_takes_what_is_posted() {
        let (of_files, of_store) = (of_files(), of_store());
        assert_eq!(of_files.most_posted("/paste"), 256 << 10);
        assert_eq!(["/", "/files", "/page/0"].map(|path| of_files.most_posted(path)), [0; 3]);
        assert_eq!(of_store.most_posted("/paste"), 0);
    }

    #[test]
    fn a_question_is_asked_without_the_number_of_its_file() {
        let asked = |path: &str| question(path).ok();
        let first = asked("/single/0/5/9");
        assert!(first.is_some() && first == asked("/single/1/5/9") && first != asked("/single/0/5/8"));
        assert!(question("/single/0").is_err());
    }
}
