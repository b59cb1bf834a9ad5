//! The exchange of work between the ranks of a walk.
//!
//! A rank whose threads are idle asks another rank for directories, and, as long as it gets none,
//! one more rank after each interval. A rank that is asked remembers the request until its queue
//! has tasks to give; if there are few, it waits a short time for more. Then each asking rank gets
//! an equal share of the queue, the oldest directories first.
//!
//! ```text
//! rank 2: idle ── Ask ──► rank 0: queue [a] [b] [c] [d] [e] [f]
//!                                          │   │
//! rank 2: [a] [b] ◄── Work ────────────────┴───┘
//! rank 2: has opened a, cannot open b ── Opened ──► rank 0: [b]
//! ```
//!
//! A rank opens the directories that it was given by path. This fails if a directory above has been
//! renamed. So a rank that gives work keeps the parent directories open until it hears that each
//! directory is open, and walks the directories itself that the other rank cannot open, as a walk
//! by one process would.
//!
//! The end is found by waves in a tree of the ranks (Mattern 1987, "Algorithms for distributed
//! termination detection", the four-counter method): a wave waits at each rank until the rank is
//! passive, and adds up how many messages with work were sent and received. If two waves in
//! succession find the same numbers, and as many received as sent, no rank has work and no message
//! is under way. Then no rank asks any more, and further waves wait until the last request has
//! arrived, so that no message is left for the next exchange.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use team::{MOST_BYTES, Team, decode, encode};

/// A rank's queue of work, as the exchange with other ranks sees it.
pub(super) trait Pool {
    /// Whether this rank has no work, and none of its threads is working.
    fn is_passive(&self) -> bool;
    /// Whether many threads of this rank are idle.
    fn is_hungry(&self) -> bool;
    fn set_askers(&self, askers: usize);
    /// Number of tasks that can be given to other ranks.
    fn count_spare_tasks(&self) -> usize;
    /// Takes work for one of `of` ranks, up to `most` bytes of [`SharedTask::size_of`].
    fn take_share(&self, of: usize, most: usize) -> Vec<SharedTask>;
    /// Adds work that came from another rank.
    fn put(&self, items: Vec<SharedTask>);
    /// Takes the outcomes of work that other ranks have lent to this rank. As long as there are
    /// outcomes to report, this rank is not passive.
    fn take_outcomes(&self) -> Vec<(LoanId, LoanOutcome)>;
    /// Handles the outcomes of work that this rank has lent to other ranks.
    fn handle_outcomes(&self, outcomes: &[(u64, LoanOutcome)]);
    /// Whether this rank takes no more work, because a walk or its sink failed.
    fn is_stopped(&self) -> bool;
    /// Drops the queued work, and takes no more.
    fn stop(&self);
    /// Number of entries that this rank has found so far.
    fn entries(&self) -> u64;
    /// Sets the number of entries that all other ranks have found.
    fn set_elsewhere(&self, entries: u64);
}

/// Work for another rank: a directory, or names in one.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SharedTask {
    /// Path of the directory, relative to the top of the walk.
    pub(super) rel: Vec<u8>,
    /// Inode number of the directory; 0 if unknown.
    pub(super) ino: u64,
    /// Names in the directory to call statx(2) for, as records of getdents64; `None`: read the
    /// directory.
    pub(super) records: Option<Vec<u8>>,
    pub(super) loan: Option<LoanId>,
}

/// Identifies a [`SharedTask`] that the lending rank does itself if the borrower cannot open the
/// directory by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LoanId {
    /// Id of the lending rank, which has the directory or its parent directory open.
    pub(super) rank: usize,
    /// Number of the [`SharedTask`] on the lending rank.
    pub(super) id: u64,
}

/// The outcome of a [`SharedTask`] with a [`LoanId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum LoanOutcome {
    Opened,
    /// The borrower cannot open the directory by its path, or found a different directory there.
    NotOpened,
}

impl SharedTask {
    /// An upper bound for the encoded size of a [`SharedTask`], by the lengths of path and records.
    pub(super) fn size_of(rel: usize, records: usize) -> usize {
        /// Encoded size of a [`SharedTask`] besides path and records: two lengths, the inode number
        /// and the loan.
        const REST: usize = 48;
        rel + records + REST
    }
}

#[derive(Serialize, Deserialize)]
enum Message {
    /// A request to another rank for work.
    Ask,
    Work(Vec<SharedTask>),
    /// The outcomes of lent work. A rank sends the next ones only after [`Message::Settled`].
    Outcomes(Vec<(u64, LoanOutcome)>),
    Settled,
    /// A walk or sink has failed on the sending rank: all ranks drop their work.
    Stop,
    /// From rank 0: a request for [`Message::Entries`].
    HowMany,
    Entries(u64),
    /// A wave (termination detection), down the tree of ranks. During the last waves no rank asks
    /// for work any more.
    Wave {
        is_last: bool,
    },
    /// The result of a wave (termination detection), up the tree of ranks.
    Counted(MessageCounts),
    /// Sent down the tree of ranks at the end: no rank has work.
    End,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct MessageCounts {
    /// Number of messages sent, except requests for work and the messages of waves.
    sent: u64,
    received: u64,
    asks_sent: u64,
    asks_received: u64,
}

impl MessageCounts {
    fn add(&mut self, other: &MessageCounts) {
        self.sent += other.sent;
        self.received += other.received;
        self.asks_sent += other.asks_sent;
        self.asks_received += other.asks_received;
    }
}

/// The state of a wave (termination detection) at this rank.
#[derive(Default)]
struct TerminationWave {
    /// Number of child ranks that have answered this wave.
    answers: usize,
    sum: MessageCounts,
}

/// One rank's part in the exchange.
pub(super) struct Exchange<'a> {
    team: &'a dyn Team,
    pool: &'a dyn Pool,
    /// Id of the rank that has all work at the beginning.
    owner: usize,
    askers: VecDeque<usize>,
    /// When the first waiting rank began to wait, or when work was last given.
    waiting_since: Instant,
    /// Whether tasks are being collected for waiting ranks, because there are few so far.
    is_collecting: bool,
    /// For each rank: whether this rank asked it for work, and got no answer yet.
    asked: Vec<bool>,
    has_asked: bool,
    giver: Option<usize>,
    /// The outcomes of work that these ranks have lent, still to be sent.
    outcomes: BTreeMap<usize, Vec<(u64, LoanOutcome)>>,
    /// The ranks that have not acknowledged the last [`Message::Outcomes`].
    unsettled: BTreeSet<usize>,
    next_ask: Instant,
    ask_interval: Duration,
    random: u64,
    counts: MessageCounts,
    wave: Option<TerminationWave>,
    /// On rank 0: message counts of the last wave (termination detection).
    last: Option<MessageCounts>,
    /// Whether no rank has work, so that this rank asks no more.
    is_over: bool,
    has_stopped: bool,
    /// On rank 0: the number of entries of each rank, and whether its answer is outstanding.
    entries: Vec<(u64, bool)>,
    next_count: Instant,
}

/// The main thread sleeps for 1/8 of the time since the last message: ranks that wait for work soon
/// send the next request.
const NAP_PART: u32 = 8;
/// Lower limit of the main thread's sleep between two checks for messages.
const SHORTEST_NAP: Duration = Duration::from_micros(25);
/// Upper limits of the main thread's sleep: while this rank works; and while this rank waits, when
/// each wave (termination detection) must pass through it.
const LONGEST_NAPS: [Duration; 2] = [Duration::from_millis(1), Duration::from_micros(200)];
/// Lower and upper limit of the sleep if an arriving message wakes the main thread. Checks remain
/// necessary: MPI passes on a message that is too large to be sent at once only when its sender
/// checks for messages.
const NAPS_WOKEN: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(16)];
/// Number of tasks to collect for each rank that waits: with fewer tasks, if these are small, the
/// rank would soon ask again.
pub(super) const FAIR_SHARE: usize = 8;
/// The time after which a waiting rank is given work even if there are fewer tasks than
/// [`FAIR_SHARE`].
const PATIENCE: Duration = Duration::from_micros(200);
/// The minimum and the maximum time between two requests for work.
const ASKS: [Duration; 2] = [Duration::from_micros(250), Duration::from_millis(64)];

impl<'a> Exchange<'a> {
    pub(super) fn new(team: &'a dyn Team, pool: &'a dyn Pool, owner: usize) -> Exchange<'a> {
        let now = Instant::now();
        Exchange {
            team,
            pool,
            owner,
            askers: VecDeque::new(),
            waiting_since: now,
            is_collecting: false,
            asked: vec![false; team.size()],
            has_asked: false,
            giver: None,
            outcomes: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            next_ask: now,
            ask_interval: ASKS[0],
            random: 0x9e37_79b9_7f4a_7c15 ^ (team.rank() as u64 + 1) << 17,
            counts: MessageCounts::default(),
            wave: None,
            last: None,
            is_over: false,
            has_stopped: false,
            entries: vec![(0, false); team.size()],
            next_count: now,
        }
    }

    pub(super) fn run(mut self) {
        let mut last_news = Instant::now();
        loop {
            let mut is_news = false;
            while let Some((from, bytes)) = self.team.receive() {
                is_news = true;
                if let Some(message) = decode(&bytes)
                    && self.take_in(from, message)
                {
                    return;
                }
            }
            self.stop_all();
            self.send_outcomes();
            is_news |= self.give();
            is_news |= self.ask();
            self.count_entries();
            if self.wave() {
                return;
            }
            if is_news {
                last_news = Instant::now();
            } else {
                self.rest(last_news.elapsed());
            }
        }
    }

    /// Sleeps until there may be something to do; `quiet` is the time since the last message. A
    /// thread of this rank ends the sleep when it is idle, or when there is work for ranks that
    /// wait.
    fn rest(&self, quiet: Duration) {
        let nap = if self.is_collecting {
            let patience = PATIENCE.saturating_sub(self.waiting_since.elapsed());
            (quiet / NAP_PART).min(patience)
        } else if !self.team.is_woken() {
            (quiet / NAP_PART).min(LONGEST_NAPS[usize::from(self.pool.is_passive())])
        } else if self.pool.is_hungry() && self.may_ask_more() {
            self.next_ask.saturating_duration_since(Instant::now())
        } else {
            (quiet / 2).clamp(NAPS_WOKEN[0], NAPS_WOKEN[1])
        };
        thread::park_timeout(nap.max(SHORTEST_NAP));
    }

    /// Whether at least one other rank has no unanswered request from this rank.
    fn may_ask_more(&self) -> bool {
        self.asked.iter().filter(|is_asked| !**is_asked).count() > 1
    }

    /// Handles a message; returns whether the exchange is over.
    fn take_in(&mut self, from: usize, message: Message) -> bool {
        match message {
            Message::Ask => {
                self.counts.asks_received += 1;
                if self.askers.is_empty() {
                    self.waiting_since = Instant::now();
                }
                self.askers.push_back(from);
            }
            Message::Work(items) => {
                self.counts.received += 1;
                self.asked[from] = false;
                self.giver = Some(from);
                self.ask_interval = ASKS[0];
                self.next_ask = Instant::now();
                self.pool.put(items);
            }
            Message::Outcomes(outcomes) => {
                self.counts.received += 1;
                self.pool.handle_outcomes(&outcomes);
                self.send(from, &Message::Settled);
            }
            Message::Settled => {
                self.counts.received += 1;
                self.unsettled.remove(&from);
            }
            Message::Stop => {
                self.counts.received += 1;
                self.has_stopped = true;
                self.pool.stop();
            }
            Message::HowMany => {
                self.counts.received += 1;
                if !self.is_over {
                    self.send(from, &Message::Entries(self.pool.entries()));
                }
            }
            Message::Entries(entries) => {
                self.counts.received += 1;
                self.entries[from] = (entries, false);
                let sum = self.entries.iter().map(|(entries, _)| entries).sum();
                self.pool.set_elsewhere(sum);
            }
            Message::Wave { is_last } => {
                self.is_over |= is_last;
                self.wave = Some(TerminationWave::default());
                self.send_down(&Message::Wave { is_last });
            }
            Message::Counted(counts) => {
                if let Some(wave) = &mut self.wave {
                    wave.answers += 1;
                    wave.sum.add(&counts);
                }
            }
            Message::End => {
                self.send_down(&Message::End);
                return true;
            }
        }
        false
    }

    fn send(&mut self, to: usize, message: &Message) {
        match message {
            Message::Ask => self.counts.asks_sent += 1,
            Message::Wave { .. } | Message::Counted(_) | Message::End => {}
            _ => self.counts.sent += 1,
        }
        self.team.send(to, &encode(message));
    }

    /// The child ranks of this rank in the tree of ranks.
    fn children(&self) -> impl Iterator<Item = usize> + use<> {
        let (first, size) = (2 * self.team.rank() + 1, self.team.size());
        (first..first + 2).filter(move |&child| child < size)
    }

    fn send_down(&mut self, message: &Message) {
        for child in self.children() {
            self.send(child, message);
        }
    }

    /// Tells all ranks, once, that this rank has stopped.
    fn stop_all(&mut self) {
        if self.has_stopped || self.is_over || !self.pool.is_stopped() {
            return;
        }
        self.has_stopped = true;
        self.pool.stop();
        for rank in (0..self.team.size()).filter(|&rank| rank != self.team.rank()) {
            self.send(rank, &Message::Stop);
        }
    }

    /// Tells other ranks the outcomes of the work that they have lent.
    fn send_outcomes(&mut self) {
        /// A message with this many outcomes fits into [`MOST_BYTES`].
        const MOST: usize = 1024;
        for (loan, outcome) in self.pool.take_outcomes() {
            let outcomes = self.outcomes.entry(loan.rank).or_default();
            outcomes.push((loan.id, outcome));
        }
        let waiting: Vec<usize> = self.outcomes.keys().copied().collect();
        for rank in waiting {
            if !self.unsettled.insert(rank) {
                continue;
            }
            let mut some = self.outcomes.remove(&rank).unwrap_or_default();
            if some.len() > MOST {
                self.outcomes.insert(rank, some.split_off(MOST));
            }
            self.send(rank, &Message::Outcomes(some));
        }
    }

    /// Gives work to ranks that wait; returns whether any was given.
    fn give(&mut self) -> bool {
        /// Encoded size of a message with work besides its items: the kind, and the number of
        /// items.
        const HEAD: usize = 16;
        let before = self.askers.len();
        self.is_collecting = false;
        let is_due = self.waiting_since.elapsed() >= PATIENCE;
        while let Some(&asker) = self.askers.front() {
            let spare = self.pool.count_spare_tasks();
            let is_enough = spare >= FAIR_SHARE * self.askers.len();
            if spare > 0 && !is_enough && !is_due {
                self.is_collecting = true;
                break;
            }
            let of = self.askers.len() + 1;
            let items = self.pool.take_share(of, MOST_BYTES - HEAD);
            if items.is_empty() {
                break;
            }
            self.askers.pop_front();
            self.waiting_since = Instant::now();
            self.send(asker, &Message::Work(items));
        }
        self.pool.set_askers(self.askers.len());
        self.askers.len() < before
    }

    /// Asks one more rank for work if the interval has passed; returns whether it did.
    fn ask(&mut self) -> bool {
        if self.is_over || !self.pool.is_hungry() || Instant::now() < self.next_ask {
            return false;
        }
        let Some(victim) = self.victim() else {
            return false;
        };
        self.has_asked = true;
        self.asked[victim] = true;
        self.next_ask = Instant::now() + self.ask_interval;
        self.ask_interval = (self.ask_interval * 2).min(ASKS[1]);
        self.send(victim, &Message::Ask);
        true
    }

    /// The rank to ask next: first the parent in a tree of ranks whose root is the owner, so that
    /// the owner's work spreads in a few steps; then the rank that gave work last, which may be the
    /// only one that has any; then a random rank without an unanswered request.
    fn victim(&mut self) -> Option<usize> {
        let (rank, size) = (self.team.rank(), self.team.size());
        let below = (rank + size - self.owner) % size;
        if !self.has_asked && below > 0 {
            return Some(((below - 1) / 2 + self.owner) % size);
        }
        if let Some(giver) = self.giver.filter(|&giver| !self.asked[giver]) {
            return Some(giver);
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let first = (self.random % size as u64) as usize;
        let mut ranks = (first..size).chain(0..first);
        ranks.find(|&other| other != rank && !self.asked[other])
    }

    /// On rank 0: requests the number of entries from each rank, at intervals.
    fn count_entries(&mut self) {
        if self.team.rank() > 0 || self.is_over || Instant::now() < self.next_count {
            return;
        }
        self.next_count = Instant::now() + Duration::from_millis(500 + self.team.size() as u64);
        for rank in 1..self.team.size() {
            if !std::mem::replace(&mut self.entries[rank].1, true) {
                self.send(rank, &Message::HowMany);
            }
        }
    }

    /// Advances the current wave (termination detection); returns whether the exchange is over.
    fn wave(&mut self) -> bool {
        let is_root = self.team.rank() == 0;
        // While this rank has work, no wave needs to begin.
        if !self.pool.is_passive() || !self.outcomes.is_empty() {
            return false;
        }
        if is_root && self.wave.is_none() {
            self.wave = Some(TerminationWave::default());
            let is_last = self.is_over;
            self.send_down(&Message::Wave { is_last });
        }
        let children = self.children().count();
        let Some(mut wave) = self.wave.take_if(|wave| wave.answers == children) else {
            return false;
        };
        wave.sum.add(&self.counts);
        let sum = wave.sum;
        if !is_root {
            self.send((self.team.rank() - 1) / 2, &Message::Counted(sum));
            return false;
        }
        if self.is_over {
            if sum.asks_sent == sum.asks_received && sum.sent == sum.received {
                self.send_down(&Message::End);
                return true;
            }
        } else {
            self.is_over = sum.sent == sum.received
                && self
                    .last
                    .is_some_and(|last| (last.sent, last.received) == (sum.sent, sum.received));
        }
        self.last = Some(sum);
        false
    }
}

/// The [`Pool`] of a rank that takes no part in a walk.
pub(super) struct NoPool;

impl Pool for NoPool {
    fn is_passive(&self) -> bool {
        true
    }
    fn is_hungry(&self) -> bool {
        false
    }
    fn set_askers(&self, _askers: usize) {}
    fn count_spare_tasks(&self) -> usize {
        0
    }
    fn take_share(&self, _of: usize, _most: usize) -> Vec<SharedTask> {
        Vec::new()
    }
    fn put(&self, _items: Vec<SharedTask>) {}
    fn take_outcomes(&self) -> Vec<(LoanId, LoanOutcome)> {
        Vec::new()
    }
    fn handle_outcomes(&self, _outcomes: &[(u64, LoanOutcome)]) {}
    fn is_stopped(&self) -> bool {
        false
    }
    fn stop(&self) {}
    fn entries(&self) -> u64 {
        0
    }
    fn set_elsewhere(&self, _entries: u64) {}
}
