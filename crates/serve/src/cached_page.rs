//! What a page shows that is made when somebody asks for it, on another thread, once at a time: of what happens now, of a
//! store, which grows, and of two files compared, which change.
//!
//! What is made belongs to all who wait for it, and is made to the end if all of them leave: who comes then has that, instead
//! of having it made once more beside it.

use exitscope_http::Bytes;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// How long a browser waits for what is being made before it is told to ask again.
pub const WAIT: Duration = Duration::from_secs(20);

/// How long is kept what nobody was waiting for: a browser that was told to ask again does so at once.
const KEPT: Duration = Duration::from_secs(5);

/// Makes what the page shows, packed, or says why it cannot.
pub type Make = Arc<dyn Fn() -> Result<Vec<u8>, String> + Send + Sync>;

/// Data that is made by [`Make`] for whoever asks.
pub struct CachedPage {
    make: Make,
    /// Which version would be made now, if what was made is of use until there is another.
    newest: Option<Box<dyn Fn() -> String>>,
    /// Who asks meanwhile waits, and has the same.
    making: RefCell<Option<Making>>,
    /// How often it was made.
    made: Cell<u64>,
}

/// What is being made, or was.
#[derive(Clone)]
struct Making {
    version: String,
    /// Whether somebody has it.
    is_read: Rc<Cell<bool>>,
    /// Nothing until it is there, then since when.
    made: watch::Receiver<Option<(Instant, Result<Bytes, String>)>>,
}

impl CachedPage {
    /// Nothing is made yet. It is made anew for the next one who asks.
    pub fn new(make: Make) -> CachedPage {
        CachedPage { make, newest: None, making: RefCell::new(None), made: Cell::new(0) }
    }

    /// The same, but it is made anew only when there is another version.
    pub fn with_version(make: Make, newest: impl Fn() -> String + 'static) -> CachedPage {
        CachedPage { newest: Some(Box::new(newest)), ..CachedPage::new(make) }
    }

    /// Version and data as they are now, or why there are none; `None` if it takes long to make.
    pub async fn data(&self) -> Option<Result<(String, Bytes), String>> {
        let mut making = self.making();
        let made = match timeout(WAIT, making.made.wait_for(Option::is_some)).await.ok()? {
            Ok(made) => made.as_ref().map(|made| made.1.clone()),
            Err(_) => None,
        };
        making.is_read.set(true);
        self.making.borrow_mut().take_if(|last| last.made.same_channel(&making.made) && self.is_over(last));
        let made = made.unwrap_or_else(|| Err("an error in exitscope".to_string()));
        Some(made.map(|data| (making.version, data)))
    }

    /// Whether nothing is being made, nor kept for who was told to ask again.
    pub fn is_idle(&self) -> bool {
        self.making.borrow().as_ref().is_none_or(|making| self.is_over(making))
    }

    /// What is being made; if nothing is, it is begun.
    fn making(&self) -> Making {
        let mut last = self.making.borrow_mut();
        last.take_if(|making| self.is_over(making));
        last.get_or_insert_with(|| self.begin()).clone()
    }

    fn begin(&self) -> Making {
        let (make, version) = (self.make.clone(), self.newest());
        let (done, made) = watch::channel(None);
        self.made.set(self.made.get() + 1);
        spawn_blocking(move || {
            let made = make().map(Bytes::from);
            done.send_replace(Some((Instant::now(), made)));
        });
        Making { version, is_read: Rc::default(), made }
    }

    /// The version that would be made now.
    fn newest(&self) -> String {
        self.newest.as_ref().map_or_else(|| (self.made.get() + 1).to_string(), |newest| newest())
    }

    /// Whether it is of no use any more: read and not the newest, or not asked for soon enough.
    fn is_over(&self, making: &Making) -> bool {
        match &*making.made.borrow() {
            Some((_, Err(_))) if making.is_read.get() => true,
            Some(_) if making.is_read.get() => making.version != self.newest(),
            Some((at, _)) => at.elapsed() > KEPT,
            None => making.made.has_changed().is_err(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[tokio::test]
    async fn it_is_made_once_for_all_who_ask_meanwhile_and_anew_for_the_next() {
        let times = Arc::new(AtomicU64::new(0));
        let counted = times.clone();
        let fresh = CachedPage::new(Arc::new(move || {
            std::thread::sleep(Duration::from_millis(50));
            Ok(counted.fetch_add(1, Ordering::Relaxed).to_string().into_bytes())
        }));
        let data = |made: Option<Result<(String, Bytes), String>>| made.unwrap().unwrap();
        let (one, other) = tokio::join!(fresh.data(), fresh.data());
        assert_eq!((data(one).1, data(other).1), ("0".into(), "0".into()));
        assert_eq!(data(fresh.data().await), ("2".to_string(), "1".into()));
    }

    #[tokio::test]
    async fn who_leaves_does_not_have_it_made_again() {
        let (times, version) = (Arc::new(AtomicU64::new(0)), Rc::new(Cell::new(1)));
        let (counted, newest) = (times.clone(), version.clone());
        let make = move || {
            std::thread::sleep(Duration::from_millis(50));
            Ok(counted.fetch_add(1, Ordering::Relaxed).to_string().into_bytes())
        };
        let fresh = CachedPage::with_version(Arc::new(make), move || newest.get().to_string());
        for left in 0..10 {
            assert!(timeout(Duration::ZERO, fresh.data()).await.is_err(), "{left}");
            version.set(version.get() + 1);
        }
        assert_eq!(fresh.data().await, Some(Ok(("1".to_string(), "0".into()))), "what was begun before");
        for _ in 0..2 {
            assert_eq!(fresh.data().await, Some(Ok(("11".to_string(), "1".into()))), "until there is another version");
        }
    }

    #[test]
    fn what_was_made_is_kept_for_who_asks_again_and_then_while_it_is_the_newest() {
        let page = CachedPage::with_version(Arc::new(|| Ok(Vec::new())), || "new".to_string());
        let over = |version: &str, is_read: bool, ago: Duration, made: Result<Bytes, String>| {
            let at = Instant::now().checked_sub(ago).unwrap();
            let making = Making {
                version: version.to_string(),
                is_read: Rc::new(Cell::new(is_read)),
                made: watch::channel(Some((at, made))).1,
            };
            page.is_over(&making)
        };
        let (made, failed) = (|| Ok(Bytes::new()), || Err("no store".to_string()));
        for version in ["old", "new"] {
            assert!(!over(version, false, KEPT / 2, made()) && !over(version, false, KEPT / 2, failed()), "{version}");
            assert!(over(version, false, KEPT * 2, made()) && over(version, false, KEPT * 2, failed()), "{version}");
            assert!(over(version, true, Duration::ZERO, failed()), "{version}");
            assert_eq!(over(version, true, KEPT * 2, made()), version == "old");
        }
        let (at_work, made) = watch::channel(None);
        let making = Making { version: "old".to_string(), is_read: Rc::default(), made };
        assert!(!page.is_over(&making), "it is being made");
        drop(at_work);
        assert!(page.is_over(&making), "nobody makes it any more");
    }

    #[tokio::test]
    async fn it_is_idle_before_and_after() {
        let page = CachedPage::new(Arc::new(|| {
            std::thread::sleep(Duration::from_millis(50));
            Ok(Vec::new())
        }));
        assert!(page.is_idle());
        assert!(timeout(Duration::ZERO, page.data()).await.is_err());
        assert!(!page.is_idle());
        assert!(matches!(page.data().await, Some(Ok(_))));
        assert!(page.is_idle());
    }

    #[tokio::test]
    async fn what_goes_wrong_is_said_and_tried_again() {
        let times = AtomicU64::new(0);
        let fresh = CachedPage::new(Arc::new(move || match times.fetch_add(1, Ordering::Relaxed) {
            0 => Err("no store".to_string()),
            1 => panic!("a test"),
            _ => Ok(Vec::new()),
        }));
        assert_eq!(fresh.data().await, Some(Err("no store".to_string())));
        assert_eq!(fresh.data().await, Some(Err("an error in exitscope".to_string())));
        assert!(matches!(fresh.data().await, Some(Ok(_))));
    }
}
