//! The watchdog of a trial: a process of its own, and the only one that sets anything while the trial runs.
//!
//! ```text
//! trial ── Begin, Set, Beat, … ─► watchdog: note ─► set ─► read back          both hold the lock
//!   ▲                                │
//!   └──────── Set, Ended ◄───────────┤ the socket is closed, or silent for longer than the lease,
//!                                    │ or somebody else has set a value, or setting failed,
//!                                    │ or the host is beyond a limit
//!                                    └─► restore, save, end
//! ```
//!
//! If it is killed, the trial finds its socket closed and restores; if both are, the state file (`tried.json`) has what to
//! restore at the next start.

use crate::applied_settings::{AppliedSettingsError, SettingsLock, can_hold_command, tried_path};
use crate::host_limits::HostHealth;
use crate::host_lock::HostLock;
use crate::host_settings::{EarlierSettings, HostSettings, RestoreError};
use crate::messages::{Messages, Received, TrialEnding, WatchOrder, WatchReply, WatchRequest};
use crate::placed_setting::PlacedSetting;
use crate::plan::SettingChange;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the host is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// How long the first message may take.
const FIRST: Duration = Duration::from_secs(10);

/// What a watchdog sets.
struct Watched {
    settings: HostSettings,
    /// The host's lock is held until this ends, too.
    _host: HostLock,
    order: WatchOrder,
    places: Vec<PlacedSetting>,
    /// The value that was set last, at each place.
    now: Vec<String>,
}

/// Watches until the trial ends, however that ends. `lock` is the file that the trial has locked. Returns what there is to
/// say if nobody was there any more to hear it.
pub fn watch_trial(stream: UnixStream, lock: File) -> Option<TrialEnding> {
    let mut messages = Messages::new(stream);
    let order = match messages.receive(FIRST) {
        Received::Message(WatchRequest::Begin(order)) => order,
        _ => return None,
    };
    let lease = order.lease;
    let mut health = HostHealth::new(&order.root, order.limits.clone());
    let sound = |watched| health.trouble(Instant::now()).map_or(Ok(watched), Err);
    let mut watched = match Watched::new(order, lock).and_then(sound) {
        Ok(watched) => watched,
        Err(why) => {
            let ended = TrialEnding { why: Some(why), ..TrialEnding::default() };
            return messages.send(&WatchReply::Ended(ended.clone())).err().map(|_| ended);
        }
    };
    // If nobody hears this, the socket is closed, which the next message says.
    let _ = messages.send(&WatchReply::Ready);
    let (mut heard, mut looked) = (Instant::now(), Instant::now());
    let ended = loop {
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            if let Some(why) = health.trouble(looked) {
                break watched.restore(Some(why));
            }
        }
        let done = match messages.receive(LOOK.min(lease.saturating_sub(heard.elapsed()))) {
            Received::Message(WatchRequest::Beat) => {
                heard = Instant::now();
                continue;
            }
            // What was sent is received first, however late this process runs again.
            Received::Nothing if heard.elapsed() < lease => continue,
            Received::Message(WatchRequest::Set(value)) => watched.set(value),
            Received::Message(WatchRequest::Keep(value)) => match watched.keep(value) {
                Ok(ended) => break ended,
                Err(why) => Err(why),
            },
            Received::Message(WatchRequest::Restore) => break watched.restore(None),
            Received::Message(WatchRequest::Begin(_)) => Err("the watchdog was started twice".to_string()),
            Received::Nothing => Err(format!("nothing came from the trial for {} ms", lease.as_millis())),
            Received::Closed => Err("the trial has ended without restoring".to_string()),
        };
        match done {
            Ok(()) => {
                let _ = messages.send(&WatchReply::Set);
                // The trial sends nothing while it waits for this.
                heard = Instant::now();
            }
            Err(why) => break watched.restore(Some(why)),
        }
    };
    messages.send(&WatchReply::Ended(ended.clone())).err().map(|_| ended)
}

impl Watched {
    fn new(order: WatchOrder, lock: File) -> Result<Watched, String> {
        let find = |target: &Option<String>| PlacedSetting::find(&order.name, target.as_deref(), &order.root);
        let places =
            order.targets.iter().map(find).collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        let fits = |(place, value): (&PlacedSetting, &String)| place.is_value(value);
        let is_sound = places.len() == order.in_force.len()
            && places.iter().zip(&order.in_force).all(fits)
            && order.values.iter().all(|value| places.iter().all(|place| place.is_value(value)));
        if !is_sound {
            return Err("the trial sent an invalid value".to_string());
        }
        if places.iter().any(PlacedSetting::is_in_guest) {
            can_hold_command(&order.state).map_err(|error| chain(&error))?;
        }
        let host = HostLock::join(&order.root).map_err(|error| chain(&AppliedSettingsError::from(error)))?;
        let lock = SettingsLock::inherited(lock);
        let (settings, _) =
            HostSettings::with_lock(&order.root, &tried_path(&order.state), lock).map_err(|error| chain(&error))?;
        Ok(Watched { settings, _host: host, now: order.in_force.clone(), places, order })
    }

    /// The changes that bring each place from what it is to this value: position 0 is what was in force.
    fn changes(&self, value: usize) -> Option<Vec<SettingChange>> {
        let new = |at: usize| match value {
            0 => Some(&self.order.in_force[at]),
            _ => self.order.values.get(value - 1),
        };
        let change = |(at, place): (usize, &PlacedSetting)| {
            Some(SettingChange { place: place.clone(), old: self.now[at].clone(), new: new(at)?.clone() })
        };
        self.places.iter().enumerate().map(change).collect()
    }

    /// Sets a value at each place, unless somebody else has set another.
    fn set(&mut self, value: usize) -> Result<(), String> {
        let changes = self.changes(value).ok_or("the trial sent an invalid value")?;
        for SettingChange { place, old, .. } in &changes {
            let now = place.read().map_err(|error| chain(&error))?;
            if !place.may_have_become(old, &now) {
                return Err(format!("{place} is {now:?}, and was set to {old}: somebody else has changed it"));
            }
        }
        let changes: Vec<_> = changes.into_iter().enumerate().filter(|(_, change)| change.old != change.new).collect();
        if changes.is_empty() {
            return Ok(());
        }
        self.settings.note(changes.iter().map(|(_, change)| change)).map_err(|error| chain(&error))?;
        for (at, change) in changes {
            self.settings.set(&change).map_err(|error| chain(&error))?;
            self.now[at] = change.new;
        }
        self.settings.save().map_err(|error| chain(&error))
    }

    /// Leaves a value in force, and notes it where `advise --undo` finds it.
    fn keep(&mut self, value: usize) -> Result<TrialEnding, String> {
        self.set(value)?;
        let tried = tried_path(&self.order.state);
        let lock = || self.settings.lock_file().map(SettingsLock::inherited).map_err(|error| error.to_string());
        let mut done = Vec::new();
        let (mut applied, _) =
            HostSettings::with_lock(&self.order.root, &self.order.state, lock()?).map_err(|error| chain(&error))?;
        for ((place, old), new) in self.places.iter().zip(&self.order.in_force).zip(&self.now) {
            let change = SettingChange { place: place.clone(), old: old.clone(), new: new.clone() };
            let restores = applied.note_set(&change).map_err(|error| chain(&error))?;
            done.push(format!("kept: {place} is {new}; `exitscope advise --undo` restores {restores}"));
        }
        done.extend(applied.left_in_guests());
        // Only now nothing else knows what was in force.
        self.settings.forget_all();
        let failed = match self.settings.save() {
            Ok(()) => Vec::new(),
            Err(error) => vec![format!("{}: {}", tried.display(), chain(&error))],
        };
        Ok(TrialEnding { why: None, kept: true, unchanged: false, done, failed })
    }

    fn restore(mut self, why: Option<String>) -> TrialEnding {
        restore_tried_settings(&mut self.settings, why, Guests::Kept)
    }
}

/// What is done about settings of guests that cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guests {
    /// They stay noted: the guest may only be out of reach.
    Kept,
    /// They are given up: a guest that is gone for good is not to prevent other trials.
    GivenUp,
}

/// Restores what a trial has set and is still as the trial set it, and gives up the rest.
fn restore_tried_settings(settings: &mut HostSettings, why: Option<String>, guests: Guests) -> TrialEnding {
    let mut ended = TrialEnding { why, ..TrialEnding::default() };
    let noted: Vec<_> = settings.applied().iter().rev().cloned().collect();
    let mut given_up = Vec::new();
    for (restored, applied) in settings.restore(false).into_iter().zip(noted) {
        match restored {
            Ok(restored) if restored.from.is_none() && !restored.gone => {
                ended.done.push(format!("{} is {}, as before", restored.place, restored.old));
            }
            Ok(restored) => ended.done.push(restored.to_string()),
            Err(error @ (RestoreError::ByOthers(..) | RestoreError::Lost(..))) => {
                let (found, was) = match &error {
                    RestoreError::ByOthers(place, now, _, old) => {
                        (format!("{place} is {now:?}, which the trial has not set"), format!(" (it was {old} before)"))
                    }
                    lost => (lost.to_string(), String::new()),
                };
                ended.done.push(format!("{found}: left unchanged{was}"));
                ended.why.get_or_insert(found);
                ended.unchanged = true;
                given_up.push(applied);
            }
            // A guest is not to be given up because the host's files are not where they were.
            Err(error @ RestoreError::OtherTree(..)) => ended.failed.push(format!("not restored: {error}")),
            Err(error) => match settings.by_hand(&applied).filter(|_| guests == Guests::GivenUp) {
                Some(by_hand) => {
                    let text = "a restart of the guest has reset it, otherwise";
                    ended.done.push(format!("given up: {}; {text} `{by_hand}` restores it", chain(&error)));
                    given_up.push(applied);
                }
                None => ended.failed.push(format!("not restored: {}", chain(&error))),
            },
        }
    }
    settings.give_up(&given_up);
    if let Err(error) = settings.save() {
        ended.failed.push(chain(&error));
    }
    ended
}

/// What a trial left that could not restore, because it and its watchdog were killed.
#[derive(Debug, PartialEq, Eq)]
pub enum LeftByTrial {
    /// No settings.
    Nothing,
    /// Settings of an earlier boot, which the kernel has reset since. They are dropped; and what to say of guests.
    EarlierBoot(Vec<String>),
    /// Settings of this boot, which were restored as far as they were still as the trial set them.
    Restored(TrialEnding),
}

impl LeftByTrial {
    /// What is said of it, line by line.
    pub fn lines(&self) -> Vec<String> {
        match self {
            LeftByTrial::Nothing => Vec::new(),
            LeftByTrial::EarlierBoot(of_guests) => {
                let reset = "a trial was killed before the last boot, which has reset what it had set on this host";
                std::iter::once(reset.to_string()).chain(of_guests.iter().cloned()).collect()
            }
            LeftByTrial::Restored(ending) => {
                let lines = ending.done.iter().chain(&ending.failed);
                lines.map(|line| format!("a trial was killed before it could restore: {line}")).collect()
            }
        }
    }
}

/// Restores what an earlier trial left, if `state` is the state file of what is applied.
pub fn restore_tried(root: &Path, state: &Path) -> Result<LeftByTrial, AppliedSettingsError> {
    if HostSettings::earlier(root, &tried_path(state))? == EarlierSettings::None {
        return Ok(LeftByTrial::Nothing);
    }
    restore_left(root, state, SettingsLock::take(root, state)?, Guests::GivenUp).map(|(left, _)| left)
}

/// The same, by whoever holds the lock.
pub(crate) fn restore_left(
    root: &Path,
    state: &Path,
    lock: SettingsLock,
    guests: Guests,
) -> Result<(LeftByTrial, SettingsLock), AppliedSettingsError> {
    let (mut settings, earlier) = HostSettings::with_lock(root, &tried_path(state), lock)?;
    let left = match earlier {
        EarlierSettings::None => LeftByTrial::Nothing,
        EarlierSettings::EarlierBoot => {
            settings.save()?;
            LeftByTrial::EarlierBoot(settings.left_in_guests().collect())
        }
        EarlierSettings::ThisBoot => LeftByTrial::Restored(restore_tried_settings(&mut settings, None, guests)),
    };
    Ok((left, settings.into_lock()))
}

/// An error with what caused it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_limits::{HostLimit, HostLimits};
    use crate::host_settings::tests::host_with_one_knob;
    use crate::placed_setting::tests::FakeGuest;
    use std::fs;
    use std::path::PathBuf;
    use std::thread::{self, JoinHandle};

    struct Host {
        _root: tempfile::TempDir,
        knob: PathBuf,
        tried: PathBuf,
        state: PathBuf,
        messages: Messages,
        watchdog: JoinHandle<Option<TrialEnding>>,
        lock: SettingsLock,
    }

    impl Host {
        fn now(&self) -> String {
            fs::read_to_string(&self.knob).unwrap().trim().to_string()
        }

        fn ask(&mut self, request: WatchRequest) -> WatchReply {
            self.messages.send(&request).unwrap();
            match self.messages.receive(Duration::from_secs(10)) {
                Received::Message(reply) => reply,
                other => panic!("{other:?}"),
            }
        }

        fn set(&mut self, value: usize) {
            let reply = self.ask(WatchRequest::Set(value));
            assert!(matches!(reply, WatchReply::Set), "{reply:?}");
        }

        fn ended(&mut self, request: WatchRequest) -> TrialEnding {
            match self.ask(request) {
                WatchReply::Ended(ended) => ended,
                other => panic!("{other:?}"),
            }
        }
    }

    /// A host whose watchdog watches halt_poll_ns, which is 777.
    fn watched(lease: Duration) -> Host {
        let (root, _, knob) = host_with_one_knob();
        watched_within(lease, HostLimits::none(), root, knob)
    }

    fn watched_within(lease: Duration, limits: HostLimits, root: tempfile::TempDir, knob: PathBuf) -> Host {
        watched_order(lease, limits, root, knob, ("halt_poll_ns", None, "777"))
    }

    /// The same with a setting's name, place and value in force.
    fn watched_order(
        lease: Duration,
        limits: HostLimits,
        root: tempfile::TempDir,
        knob: PathBuf,
        (name, target, in_force): (&str, Option<String>, &str),
    ) -> Host {
        fs::write(&knob, format!("{in_force}\n")).unwrap();
        let state = root.path().join("state/applied.json");
        let lock = SettingsLock::take(root.path(), &state).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let file = lock.shared().unwrap();
        let watchdog = thread::spawn(move || watch_trial(theirs, file));
        let order = WatchOrder {
            root: root.path().to_path_buf(),
            state: state.clone(),
            lease,
            limits,
            name: name.to_string(),
            targets: vec![target],
            in_force: vec![in_force.to_string()],
            values: ["0", "50000"].map(str::to_string).to_vec(),
        };
        let tried = tried_path(&state);
        let mut host = Host { _root: root, knob, tried, state, messages: Messages::new(ours), watchdog, lock };
        assert!(matches!(host.ask(WatchRequest::Begin(order)), WatchReply::Ready));
        host
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn it_sets_what_it_is_told_and_restores_at_the_end() {
        let mut host = watched(LONG);
        host.set(0);
        assert!(!host.tried.exists(), "nothing was changed yet");
        for (value, text) in [(1, "0"), (2, "50000"), (2, "50000"), (0, "777"), (1, "0")] {
            host.set(value);
            assert_eq!((host.now().as_str(), host.tried.exists()), (text, true));
        }
        let ended = host.ended(WatchRequest::Restore);
        assert_eq!((ended.why, ended.kept, ended.failed), (None, false, Vec::new()));
        assert!(ended.done[0].contains("is 777 again"), "{:?}", ended.done);
        assert_eq!((host.now().as_str(), host.tried.exists()), ("777", false));
        assert_eq!(host.watchdog.join().unwrap(), None);
    }

    #[test]
    fn silence_and_a_closed_socket_make_it_restore() {
        let mut host = watched(Duration::from_millis(200));
        host.set(1);
        let Received::Message(WatchReply::Ended(ended)) = host.messages.receive(Duration::from_secs(10)) else {
            panic!("it ends")
        };
        assert_eq!(ended.why.unwrap(), "nothing came from the trial for 200 ms");
        assert_eq!((host.now().as_str(), host.tried.exists()), ("777", false));
        // Whoever wakes up later sets nothing any more.
        assert_eq!(host.watchdog.join().unwrap(), None);
        assert!(host.messages.send(&WatchRequest::Set(2)).is_err());
        let mut host = watched(LONG);
        host.set(2);
        host.messages.close().unwrap();
        let said = host.watchdog.join().unwrap().unwrap();
        assert_eq!(said.why.unwrap(), "the trial has ended without restoring");
        assert_eq!(fs::read_to_string(&host.knob).unwrap(), "777\n");
    }

    #[test]
    fn a_beat_renews_the_lease() {
        let mut host = watched(Duration::from_millis(400));
        host.set(1);
        for _ in 0..8 {
            thread::sleep(Duration::from_millis(100));
            host.messages.send(&WatchRequest::Beat).unwrap();
        }
        host.set(2);
        assert_eq!(host.now(), "50000");
    }

    #[test]
    fn a_host_beyond_a_limit_makes_it_restore_although_the_trial_is_alive() {
        let (root, _, knob) = host_with_one_knob();
        let load = root.path().join("proc/loadavg");
        fs::create_dir_all(load.parent().unwrap()).unwrap();
        fs::write(&load, "1.00 1.00 1.00 1/1 1\n").unwrap();
        let limits = HostLimits::new(root.path(), vec![HostLimit::parse("host_load>40").unwrap()]).unwrap();
        let mut host = watched_within(Duration::from_secs(1), limits, root, knob);
        host.set(1);
        let beat = |host: &mut Host, count: usize| {
            (0..count).any(|_| {
                thread::sleep(Duration::from_millis(50));
                host.messages.send(&WatchRequest::Beat).is_err()
            })
        };
        assert!(!beat(&mut host, 30), "the host is well");
        assert_eq!(host.now(), "0");
        // At once: between cutting off and writing there would be nothing to read.
        fs::write(load.with_extension("new"), "41.00 1.00 1.00 1/1 1\n").unwrap();
        fs::rename(load.with_extension("new"), &load).unwrap();
        assert!(beat(&mut host, 40), "it ends within two seconds");
        let Received::Message(WatchReply::Ended(ended)) = host.messages.receive(Duration::from_secs(10)) else {
            panic!("it ends")
        };
        assert_eq!(ended.why.unwrap(), "the host's load was 41 in the last minute, more than 40");
        assert_eq!((host.now().as_str(), host.tried.exists()), ("777", false));
    }

    #[test]
    fn what_somebody_else_has_set_ends_the_trial_and_is_left_alone() {
        let mut host = watched(LONG);
        host.set(1);
        fs::write(&host.knob, "5\n").unwrap();
        let ended = host.ended(WatchRequest::Set(2));
        assert!(ended.why.unwrap().ends_with("is \"5\", and was set to 0: somebody else has changed it"));
        assert!(ended.done[0].ends_with("which the trial has not set: left unchanged (it was 777 before)"));
        assert_eq!((host.now().as_str(), host.tried.exists(), ended.failed.len()), ("5", false, 0));
    }

    #[test]
    fn what_somebody_else_has_set_in_the_last_turn_is_why_the_trial_was_no_good() {
        let mut host = watched(LONG);
        host.set(1);
        fs::write(&host.knob, "5\n").unwrap();
        let ended = host.ended(WatchRequest::Restore);
        assert!(ended.why.unwrap().ends_with("is \"5\", which the trial has not set"));
        assert_eq!((host.now().as_str(), ended.failed.len()), ("5", 0));
    }

    #[test]
    fn a_value_that_is_kept_can_be_undone_later() {
        let mut host = watched(LONG);
        host.set(2);
        host.set(0);
        let ended = host.ended(WatchRequest::Keep(2));
        assert!(ended.kept && ended.failed.is_empty() && ended.done[0].contains("restores 777"), "{ended:?}");
        assert_eq!((host.now().as_str(), host.tried.exists()), ("50000", false));
        drop(host.lock);
        host.watchdog.join().unwrap();
        let (mut settings, earlier) = HostSettings::open(host._root.path(), &host.state).unwrap();
        assert_eq!(earlier, EarlierSettings::ThisBoot);
        assert!(settings.restore(false)[0].is_ok());
        assert_eq!(fs::read_to_string(&host.knob).unwrap(), "777\n");
    }

    #[test]
    fn only_what_was_ordered_is_set() {
        let mut host = watched(LONG);
        let ended = host.ended(WatchRequest::Set(3));
        assert_eq!((ended.why.as_deref(), host.now().as_str()), (Some("the trial sent an invalid value"), "777"));
    }

    fn watched_guest(guest: &FakeGuest) -> Host {
        let (root, _, _) = host_with_one_knob();
        let target = Some(format!("guest {}", guest.command()));
        let order = ("guest_halt_poll_ns", target, "200000");
        watched_order(Duration::from_secs(1), HostLimits::none(), root, guest.file(), order)
    }

    #[test]
    fn a_knob_of_a_guest_is_set_and_restored() {
        let guest = FakeGuest::new();
        let mut host = watched_guest(&guest);
        host.set(1);
        assert_eq!((guest.now().as_str(), host.tried.exists()), ("0", true));
        // The trial dies, and the lease ends.
        let Received::Message(WatchReply::Ended(ended)) = host.messages.receive(Duration::from_secs(10)) else {
            panic!("it ends")
        };
        assert!(
            ended.done[0].contains("of the guest of `sh ") && ended.done[0].ends_with("is 200000 again"),
            "{ended:?}"
        );
        assert_eq!((guest.now().as_str(), host.tried.exists()), ("200000", false));
    }

    #[test]
    fn a_guest_that_is_gone_is_told_noted_and_given_up_at_the_next_start() {
        let guest = FakeGuest::new();
        let mut host = watched_guest(&guest);
        host.set(1);
        guest.end();
        let ended = host.ended(WatchRequest::Restore);
        assert!(ended.failed[0].ends_with("the guest's command failed (exit status: 255): \"no route\""), "{ended:?}");
        assert!(host.tried.exists(), "the guest may come back");
        host.watchdog.join().unwrap();
        drop(host.lock);
        let LeftByTrial::Restored(ended) = restore_tried(host._root.path(), &host.state).unwrap() else {
            panic!("it is there")
        };
        let by_hand = "/reach' 'echo 200000 > /sys/module/haltpoll/parameters/guest_halt_poll_ns'` restores it";
        assert!(ended.failed.is_empty() && ended.done[0].starts_with("given up: "), "{ended:?}");
        assert!(ended.done[0].ends_with(by_hand), "{ended:?}");
        assert!(!host.tried.exists());
    }

    #[test]
    fn how_to_restore_a_guest_is_told_although_the_host_was_booted() {
        let guest = FakeGuest::new();
        let mut host = watched_guest(&guest);
        host.set(1);
        let left = fs::read_to_string(&host.tried).unwrap().replace("\"boot\": \"", "\"boot\": \"earlier-");
        host.ended(WatchRequest::Restore);
        host.watchdog.join().unwrap();
        drop(host.lock);
        fs::write(&host.tried, left).unwrap();
        fs::set_permissions(&host.tried, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let left = restore_tried(host._root.path(), &host.state).unwrap();
        let [reset, of_guest] = &left.lines()[..] else { panic!("{left:?}") };
        assert!(reset.ends_with("has reset what it had set on this host"), "{reset}");
        assert!(of_guest.contains("echo 200000 > /sys/module/haltpoll/parameters/guest_halt_poll_ns"), "{of_guest}");
        assert!(!host.tried.exists());
    }

    #[test]
    fn what_was_made_of_a_value_that_was_not_taken_is_not_somebody_elses() {
        let guest = FakeGuest::new();
        let mut host = watched_guest(&guest);
        guest.clamp("1000");
        let ended = host.ended(WatchRequest::Set(2));
        assert!(ended.why.unwrap().contains("1000"));
        // It does not take the old one either now: that is told, and stays noted.
        assert!(ended.failed.len() == 1 && ended.done.is_empty(), "{:?} {:?}", ended.failed, ended.done);
        assert!(host.tried.exists());
    }

    #[test]
    fn a_guest_that_hangs_ends_the_trial_in_time() {
        let guest = FakeGuest::new();
        let mut host = watched_guest(&guest);
        host.set(1);
        guest.hang();
        let began = Instant::now();
        host.messages.send(&WatchRequest::Set(2)).unwrap();
        let Received::Message(WatchReply::Ended(ended)) = host.messages.receive(Duration::from_secs(45)) else {
            panic!("it ends")
        };
        assert!(ended.why.unwrap().ends_with("the guest's command did not end within 5 s"));
        assert!(ended.failed.len() == 1 && host.tried.exists());
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }

    #[test]
    fn what_a_killed_trial_left_is_restored_once() {
        let mut host = watched(LONG);
        host.set(1);
        // As if both were killed: the state file stays, and the lock is let go.
        let left = fs::read(&host.tried).unwrap();
        host.ended(WatchRequest::Restore);
        host.watchdog.join().unwrap();
        let put_back = || {
            fs::write(&host.tried, &left).unwrap();
            fs::set_permissions(&host.tried, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            fs::write(&host.knob, "0\n").unwrap();
        };
        put_back();
        let held = restore_tried(host._root.path(), &host.state).unwrap_err().to_string();
        assert!(held.contains("another `exitscope advise` or `exitscope try`"), "{held}");
        drop(host.lock);
        let LeftByTrial::Restored(ended) = restore_tried(host._root.path(), &host.state).unwrap() else {
            panic!("it is there")
        };
        assert!(ended.done[0].contains("is 777 again") && ended.failed.is_empty(), "{ended:?}");
        assert_eq!(fs::read_to_string(&host.knob).unwrap(), "777\n");
        assert_eq!(restore_tried(host._root.path(), &host.state).unwrap(), LeftByTrial::Nothing);
        put_back();
        let text = fs::read_to_string(&host.tried).unwrap().replace("\"boot\": \"", "\"boot\": \"earlier-");
        fs::write(&host.tried, text).unwrap();
        assert_eq!(restore_tried(host._root.path(), &host.state).unwrap(), LeftByTrial::EarlierBoot(Vec::new()));
        assert_eq!((fs::read_to_string(&host.knob).unwrap().as_str(), host.tried.exists()), ("0\n", false));
    }
}
