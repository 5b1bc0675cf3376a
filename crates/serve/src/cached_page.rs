//! What a page shows that is made when somebody asks for it, on another thread, once at a time: of a store, which grows, and
//! of two files compared, which change.

use exitscope_http::Bytes;
use std::cell::{Cell, RefCell};
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

/// What is being made: nothing until it is there, then since when.
type Making = watch::Receiver<Option<(Instant, Result<Bytes, String>)>>;

/// Data that is made by [`Make`] for whoever asks.
pub struct CachedPage {
    make: Make,
    /// Who asks meanwhile waits, and has the same.
    making: RefCell<Option<Making>>,
    /// How often it was made.
    made: Cell<u64>,
}

impl CachedPage {
    /// Nothing is made yet.
    pub fn new(make: Make) -> CachedPage {
        CachedPage { make, making: RefCell::new(None), made: Cell::new(0) }
    }

    /// Version and data as they are now, or why there are none; `None` if it takes long to make.
    pub async fn data(&self) -> Option<Result<(String, Bytes), String>> {
        let mut making = self.making();
        let made = match timeout(WAIT, making.wait_for(Option::is_some)).await.ok()? {
            Ok(made) => made.as_ref().map(|made| made.1.clone()),
            Err(_) => None,
        };
        // The next one has it made anew.
        self.making.borrow_mut().take_if(|other| other.same_channel(&making));
        let made = made.unwrap_or_else(|| Err("an error in exitscope".to_string()));
        Some(made.map(|data| (self.made.get().to_string(), data)))
    }

    /// Whether nothing is being made, nor kept for who was told to ask again.
    pub fn is_idle(&self) -> bool {
        self.making.borrow().as_ref().is_none_or(is_old)
    }

    /// What is being made; if nothing is, it is begun.
    fn making(&self) -> Making {
        let mut now = self.making.borrow_mut();
        now.take_if(|making| is_old(making));
        let begin = || {
            let (make, (done, making)) = (self.make.clone(), watch::channel(None));
            self.made.set(self.made.get() + 1);
            spawn_blocking(move || {
                let made = make().map(Bytes::from);
                done.send_replace(Some((Instant::now(), made)));
            });
            making
        };
        now.get_or_insert_with(begin).clone()
    }
}

/// Whether it has been made, and was not asked for soon enough.
fn is_old(making: &Making) -> bool {
    making.borrow().as_ref().is_some_and(|made| made.0.elapsed() > KEPT)
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
