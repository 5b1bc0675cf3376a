//! Seats: how many connections may be in each state at a time, in all and of one peer.
//!
//! ```text
//! accept ─► Asking ─► Waiting ─► Sending ─► end        full, or the peer has its share there: the request is refused
//!             │          └─ notes stay here
//!             └─► Watching ─► end                      full: the oldest of the peer that has most there is cut
//! ```
//!
//! A connection is in one room at a time. Who has not yet asked cannot be refused, and what watches over the server must not
//! be: there the newest always gets a seat, and whoever has most loses one. So nobody keeps others out, and many connections
//! of one peer only ever cost that peer's own. Nobody loses a seat at once: whoever asks at once, by TLS, too, is heard however
//! many others connect. The next ones wait so long to be accepted.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// How long a connection has its seat at least: a few ways there and back, for a client that may wait for a CPU,
/// too. A thousand are accepted in eight times that, which scrapers wait for.
const LEAST: Duration = Duration::from_millis(100);

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It has not sent a whole request.
    Asking,
    /// Its answer is being made, or it is sent notes as they come.
    Waiting,
    /// It is sent a whole answer.
    Sending,
    /// The same, of what watches over the server.
    Watching,
}

/// How many seats a room has.
struct Seats {
    /// In all.
    all: usize,
    /// For one peer. Where nobody is refused it is the same number.
    of_one: usize,
}

impl Room {
    const COUNT: usize = 4;

    /// Together fewer than the descriptors that a process may have by default, which are 1024.
    const fn seats(self) -> Seats {
        match self {
            Room::Asking => Seats { all: 128, of_one: 128 },
            Room::Waiting => Seats { all: 256, of_one: 64 },
            Room::Sending => Seats { all: 32, of_one: 16 },
            Room::Watching => Seats { all: 8, of_one: 8 },
        }
    }

    /// Whether the newest is refused where there is no seat, so that the others keep theirs.
    fn refuses(self) -> bool {
        matches!(self, Room::Waiting | Room::Sending)
    }
}

/// Why there is no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// This peer has its share, which is so many.
    Peer(usize),
    /// There are no more than so many.
    All(usize),
}

/// Who sits where, the oldest first.
#[derive(Default)]
pub(crate) struct Rooms {
    taken: [RefCell<Vec<Taken>>; Room::COUNT],
}

struct Taken {
    peer: IpAddr,
    since: Instant,
    /// Told when the seat is taken away.
    lost: Rc<Notify>,
}

/// A connection and the seat that it has.
pub(crate) struct Guest {
    rooms: Rc<Rooms>,
    peer: IpAddr,
    room: RefCell<Option<Room>>,
    lost: Rc<Notify>,
}

impl Rooms {
    /// A connection of this peer, which has a seat where it can ask.
    pub(crate) fn enter(self: &Rc<Rooms>, peer: IpAddr) -> Guest {
        let guest =
            Guest { rooms: self.clone(), peer: host(peer), room: RefCell::new(None), lost: Rc::new(Notify::new()) };
        // Nobody is refused there.
        let _ = guest.go_to(Room::Asking);
        guest
    }

    /// Waits until there is a seat for one more, or one that may be taken away.
    pub(crate) async fn ready(&self) {
        let since = {
            let taken = self.of(Room::Asking).borrow();
            let is_full = taken.len() >= Room::Asking.seats().all;
            is_full.then(|| loser(&taken).map(|at| taken[at].since)).flatten()
        };
        if let Some(since) = since {
            sleep_until(since + LEAST).await;
        }
    }

    /// Whether somebody waits for an answer that was asked for.
    pub(crate) fn owe_answers(&self) -> bool {
        [Room::Waiting, Room::Sending, Room::Watching].iter().any(|&room| !self.of(room).borrow().is_empty())
    }

    fn of(&self, room: Room) -> &RefCell<Vec<Taken>> {
        &self.taken[room as usize]
    }
}

impl Guest {
    /// Takes a seat there and leaves the one before; if there is none, keeps it.
    pub(crate) fn go_to(&self, room: Room) -> Result<(), Refused> {
        let seats = room.seats();
        let mut taken = self.rooms.of(room).borrow_mut();
        if room.refuses() && seats_of(self.peer, &taken) >= seats.of_one {
            return Err(Refused::Peer(seats.of_one));
        }
        if room.refuses() && taken.len() >= seats.all {
            return Err(Refused::All(seats.all));
        }
        if taken.len() >= seats.all
            && let Some(at) = loser(&taken)
        {
            taken.remove(at).lost.notify_one();
        }
        taken.push(Taken { peer: self.peer, since: Instant::now(), lost: self.lost.clone() });
        drop(taken);
        self.leave();
        self.room.replace(Some(room));
        Ok(())
    }

    /// Waits until its seat is taken away.
    pub(crate) async fn lost(&self) {
        self.lost.notified().await;
    }

    fn leave(&self) {
        if let Some(room) = self.room.take() {
            // The first is the one before, should it be the same room.
            let mut taken = self.rooms.of(room).borrow_mut();
            if let Some(seat) = taken.iter().position(|seat| Rc::ptr_eq(&seat.lost, &self.lost)) {
                taken.remove(seat);
            }
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.leave();
    }
}

/// How many of these seats a peer has.
fn seats_of(peer: IpAddr, taken: &[Taken]) -> usize {
    taken.iter().filter(|seat| seat.peer == peer).count()
}

/// Whose seat is taken away for another: the oldest of the peer that has most.
fn loser(taken: &[Taken]) -> Option<usize> {
    let most = taken.iter().map(|seat| seats_of(seat.peer, taken)).max();
    taken.iter().position(|seat| Some(seats_of(seat.peer, taken)) == most)
}

/// Whom an address is of: who has one of IPv6 has all of its first 64 bits.
fn host(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    async fn is_lost(guest: &Guest) -> bool {
        tokio::time::timeout(std::time::Duration::ZERO, guest.lost()).await.is_ok()
    }

    #[tokio::test]
    async fn who_has_most_loses_the_oldest_and_the_newest_always_gets_a_seat() {
        let rooms = Rc::new(Rooms::default());
        let one = rooms.enter(peer(1));
        let many: Vec<Guest> = (0..Room::Asking.seats().all - 1).map(|_| rooms.enter(peer(2))).collect();
        let more: Vec<Guest> = (0..3).map(|_| rooms.enter(peer(2))).collect();
        let last = rooms.enter(peer(3));
        for (at, guest) in many.iter().enumerate() {
            assert_eq!(is_lost(guest).await, at < 4, "{at}");
        }
        assert!(!is_lost(&one).await && !is_lost(&last).await && !is_lost(&more[2]).await);
        drop((one, many, more, last));
        assert!(rooms.of(Room::Asking).borrow().is_empty());
    }

    #[tokio::test]
    async fn nobody_loses_a_seat_at_once() {
        let (rooms, began) = (Rc::new(Rooms::default()), Instant::now());
        let mut guests = Vec::new();
        for _ in 0..3 * Room::Asking.seats().all {
            rooms.ready().await;
            guests.push(rooms.enter(peer(1)));
        }
        assert!(began.elapsed() >= 2 * LEAST);
    }

    #[test]
    fn a_peer_that_has_its_share_is_refused_and_others_are_not() {
        let rooms = Rc::new(Rooms::default());
        let Seats { all, of_one } = Room::Sending.seats();
        let enter = |number| {
            let guest = rooms.enter(peer(number));
            guest.go_to(Room::Sending).map(|()| guest)
        };
        let mut seated: Vec<Guest> = (0..of_one).map(|_| enter(1).ok().unwrap()).collect();
        assert_eq!(enter(1).err(), Some(Refused::Peer(of_one)));
        seated.extend((of_one..all).map(|at| enter(at as u8 + 2).ok().unwrap()));
        assert_eq!(enter(250).err(), Some(Refused::All(all)));
        assert!(rooms.owe_answers());
        // Who goes on makes room.
        seated[0].go_to(Room::Watching).unwrap();
        assert!(enter(250).is_ok());
        drop(seated);
        assert!(!rooms.owe_answers());
        assert!(rooms.taken.iter().all(|taken| taken.borrow().is_empty()));
    }

    #[test]
    fn an_ipv6_network_and_an_ipv4_address_are_a_peer() {
        for (a, b, same) in [
            ("2001:db8:1:2::1", "2001:db8:1:2:ffff::", true),
            ("2001:db8:1:2::1", "2001:db8:1:3::1", false),
            ("::ffff:192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
        ] {
            assert_eq!(host(a.parse().unwrap()) == host(b.parse().unwrap()), same, "{a} {b}");
        }
    }
}
