//! A simulated client of a network file system: its caches, and the requests that it makes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use base::path::{join, names, parent};
use gate::cache::page_size;

use crate::readahead::{Limits, Reads, faults, first_window, sequential};
use crate::request::{ClientBehavior, Request, Requests};
use crate::trace::NameUse;
use crate::tree::{FileTree, Node};

/// The cached part of a file.
#[derive(Clone, Copy, Default)]
pub(crate) struct CachedFile {
    /// The number of bytes, from the start of the file, that were read.
    bytes: u64,
    /// Whether the file was mapped.
    is_mapped: bool,
}

/// The purpose of resolving a name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Look,
    /// Open or execute the file.
    Open,
}

/// How a process reads a file.
#[derive(Clone, Copy)]
struct ReadPattern {
    /// The size of the first read in bytes.
    first: u64,
    /// The largest offset at which a read ends.
    extent: u64,
    /// Whether the file is mapped.
    is_mapped: bool,
    /// How many times the file is opened.
    times: u64,
}

/// Maps times of the recorded start to times of a start that waits for requests.
pub(crate) struct Timeline {
    /// The time of the first use of each name in the recorded start, in nanoseconds, and the number
    /// of requests waited for before.
    waited: Vec<(u64, u64)>,
    /// The number of all requests that are waited for.
    all: u64,
    /// The duration of the start in seconds.
    pub(crate) seconds: f64,
}

impl Timeline {
    /// Converts a time of the recorded start, in nanoseconds, to seconds since the beginning of the
    /// simulated start.
    fn at(&self, nanos: u64) -> f64 {
        let after = self.waited.partition_point(|(at, _)| *at <= nanos);
        let before = after.checked_sub(1).and_then(|at| self.waited.get(at));
        let waited = before.map_or(0, |(_, waited)| *waited);
        self.seconds * waited as f64 / self.all.max(1) as f64
    }
}

/// A client of a network file system, and its caches.
pub(crate) struct Client<'a> {
    tree: &'a mut dyn FileTree,
    behavior: ClientBehavior,
    names: HashSet<Vec<u8>>,
    pub(crate) links: HashSet<Vec<u8>>,
    pub(crate) files: HashMap<Vec<u8>, CachedFile>,
    /// Directories whose search permission was checked.
    searched: HashSet<Vec<u8>>,
    /// Listed directories, with the number of names used before the listing.
    listed: HashMap<Vec<u8>, usize>,
    /// Files with a delegation.
    delegated: HashSet<Vec<u8>>,
    /// Files and directories that were read since their attributes were fetched.
    stale: HashSet<Vec<u8>>,
    /// The times of the first and last lookup by name of each file and link, in nanoseconds.
    looked_up: HashMap<Vec<u8>, (u64, u64)>,
    /// Files and links whose cached attributes have expired.
    expired: HashSet<Vec<u8>>,
    /// The times of the first and last lookup of the current name.
    now: (u64, u64),
    /// The number of names used so far.
    used: usize,
    /// The page size in bytes.
    page: u64,
    /// The total size of the files read.
    pub(crate) bytes: u64,
    requests: Requests,
}

impl<'a> Client<'a> {
    pub(crate) fn new(tree: &'a mut dyn FileTree, behavior: ClientBehavior) -> Client<'a> {
        Client {
            tree,
            behavior,
            names: HashSet::new(),
            links: HashSet::new(),
            files: HashMap::new(),
            searched: HashSet::new(),
            listed: HashMap::new(),
            delegated: HashSet::new(),
            stale: HashSet::new(),
            looked_up: HashMap::new(),
            expired: HashSet::new(),
            now: (0, 0),
            used: 0,
            page: page_size() as u64,
            bytes: 0,
            requests: Requests::default(),
        }
    }

    /// Simulates the command once. Returns the requests, and their times in a start whose duration
    /// is the result of `seconds`.
    pub(crate) fn start(
        &mut self,
        names: &[NameUse],
        seconds: impl Fn(&Requests) -> f64,
    ) -> (Requests, Timeline) {
        let mut waited = Vec::with_capacity(names.len());
        for used in names {
            waited.push((used.first_at, self.requests.waited()));
            self.use_name(used);
            self.used += 1;
        }
        let requests = std::mem::take(&mut self.requests);
        let seconds = seconds(&requests);
        let timeline = Timeline {
            waited,
            all: requests.waited(),
            seconds,
        };
        (requests, timeline)
    }

    /// Resolves a name, `times` times. Returns the path of its file without symbolic links, and the
    /// file's type.
    pub(crate) fn resolve(
        &mut self,
        path: &[u8],
        follow: bool,
        purpose: Purpose,
        times: u64,
    ) -> Option<(Vec<u8>, Node)> {
        /// The kernel's maximum number of symbolic links in a path.
        const MOST_LINKS: u32 = 40;
        let mut left: VecDeque<Vec<u8>> = names(path).map(<[u8]>::to_vec).collect();
        let mut here = b"/".to_vec();
        let mut links = 0;
        let mut node = Node::Directory;
        while let Some(part) = left.pop_front() {
            if part == b"." {
                continue;
            }
            if part == b".." {
                here = parent(&here).to_vec();
                node = Node::Directory;
                continue;
            }
            if node != Node::Directory {
                return None;
            }
            let next = join(&here, &part);
            let purpose = if left.is_empty() {
                purpose
            } else {
                Purpose::Look
            };
            node = self.look_up(&here, &next, purpose, times);
            match &node {
                Node::Missing => return None,
                Node::Link(_) if left.is_empty() && !follow => return Some((next, node)),
                Node::Link(target) => {
                    links += 1;
                    if links > MOST_LINKS {
                        return None;
                    }
                    if self.tree.is_remote(&here) {
                        self.read_link(&next, times);
                    }
                    if target.starts_with(b"/") {
                        here = b"/".to_vec();
                    }
                    let parts: Vec<&[u8]> = names(target).collect();
                    for part in parts.into_iter().rev() {
                        left.push_front(part.to_vec());
                    }
                    node = Node::Directory;
                }
                _ => here = next,
            }
        }
        Some((here, node))
    }

    /// Looks one component up in a directory.
    fn look_up(&mut self, dir: &[u8], path: &[u8], purpose: Purpose, times: u64) -> Node {
        let node = self.tree.node(path);
        if !self.tree.is_remote(dir) {
            return node;
        }
        if matches!(node, Node::File(_) | Node::Link(_)) {
            let (first, last) = self.now;
            let times = self.looked_up.entry(path.to_vec()).or_insert(self.now);
            *times = (times.0.min(first), times.1.max(last));
        }
        if self.behavior.checks_access && self.searched.insert(dir.to_vec()) {
            self.requests.add(Request::Access, 1);
        }
        let keeps = match node {
            Node::Missing => self.behavior.keeps_misses,
            _ => self.behavior.keeps_names,
        };
        if keeps && self.knows(dir, path, &node) {
            self.validate(path);
            return node;
        }
        self.names.insert(path.to_vec());
        let is_opened = purpose == Purpose::Open && self.behavior.atomic_open;
        match node {
            // `open` or `execute` counts the request that opens the file.
            Node::File(_) if is_opened => {}
            // A directory or link cannot be opened by an atomic open, and is looked up after all.
            Node::Directory | Node::Link(_) | Node::Special if is_opened => {
                self.requests.add(Request::Open, 1);
                self.requests.add(Request::Lookup, 1);
            }
            _ => self
                .requests
                .add(Request::Lookup, if keeps { 1 } else { times }),
        }
        node
    }

    /// Whether a name is cached, or was in the listing of its directory.
    fn knows(&self, dir: &[u8], path: &[u8], node: &Node) -> bool {
        let listed_at = self.listed.get(dir).filter(|_| *node != Node::Missing);
        self.names.contains(path) || listed_at.is_some_and(|at| *at <= self.used)
    }

    /// Expires the attributes of files and links without delegation if the time between two lookups
    /// exceeds `kept`: from the last one in the start `ended` to the first one in the start `next`,
    /// which follows immediately.
    pub(crate) fn expire(&mut self, ended: &Timeline, next: &Timeline, kept: Duration) {
        let kept = kept.as_secs_f64();
        let is_old =
            |(first, last): (u64, u64)| ended.seconds - ended.at(last) + next.at(first) > kept;
        let names = std::mem::take(&mut self.looked_up).into_iter();
        let old = names.filter(|(name, times)| is_old(*times) && !self.delegated.contains(name));
        self.expired = old.map(|(name, _)| name).collect();
    }

    /// Fetches the attributes of a cached name's file, if they have expired.
    fn validate(&mut self, path: &[u8]) {
        if self.expired.remove(path) {
            self.requests.add(Request::Getattr, 1);
            self.stale.remove(path);
        }
    }

    fn read_link(&mut self, path: &[u8], times: u64) {
        let is_new = self.links.insert(path.to_vec());
        let requests = match self.behavior.keeps_links {
            true => u64::from(is_new),
            false => times,
        };
        self.requests.add(Request::Readlink, requests);
    }

    /// Simulates all calls of the command with a name.
    fn use_name(&mut self, used: &NameUse) {
        self.now = (used.first_at, used.last_at);
        let known = self.names.len();
        let Some((file, node)) = self.look_up_all(used) else {
            return;
        };
        let is_new = self.names.len() > known;
        let mut has_read = false;
        if used.execs > 0 {
            has_read |= self.execute(&file, used.execs, 0);
        }
        let is_remote = match node {
            Node::Directory => self.tree.is_remote(&file),
            _ => self.tree.is_remote(parent(&file)),
        };
        if !is_remote {
            return;
        }
        if used.opens > 0 {
            match node {
                Node::Directory => has_read |= self.list(&file, used, is_new),
                Node::File(size) => has_read |= self.open(&file, size, used),
                _ => {}
            }
        }
        if self.behavior.stats_after_read {
            self.fetch_attributes(&file, used, has_read);
        }
    }

    /// Looks a name up as often as the command did. Returns the file of the last lookup, and its
    /// type.
    fn look_up_all(&mut self, used: &NameUse) -> Option<(Vec<u8>, Node)> {
        let times = used.count.hits + used.count.misses;
        let purpose = match used.opened_first {
            true => Purpose::Open,
            false => Purpose::Look,
        };
        let mut resolved = None;
        if used.nofollow {
            let times = if used.follow { 1 } else { times };
            resolved = self.resolve(&used.path, false, purpose, times);
            if used.readlinks > 0
                && let Some((link, Node::Link(_))) = &resolved
                && self.tree.is_remote(parent(link))
            {
                self.read_link(link, used.readlinks);
            }
        }
        if used.follow {
            resolved = self.resolve(&used.path, true, purpose, times);
        }
        resolved
    }

    /// Opens and lists a directory. `is_new` if its name was not cached: then the lookup has just
    /// fetched the attributes. Returns whether entries were requested.
    fn list(&mut self, dir: &[u8], used: &NameUse, is_new: bool) -> bool {
        if !self.behavior.closes {
            self.requests.add(Request::Release, used.opens);
        }
        if !self.behavior.lists {
            return false;
        }
        if !self.behavior.keeps_lists {
            self.requests.add(Request::Opendir, used.opens);
            self.requests.add(Request::Readdir, used.listings);
            return used.listings > 0;
        }
        let fetched = u64::from(is_new && used.opened_first);
        let opens = used.opens.saturating_sub(fetched);
        self.requests.add(Request::Opendir, opens);
        if used.listings == 0 || self.listed.contains_key(dir) {
            return false;
        }
        // The last getdents64(2) of a listing only finds the end, which the client knows.
        let requests = used.listings.div_ceil(used.opens).saturating_sub(1);
        self.requests.add(Request::Readdir, requests.max(1));
        self.listed.insert(dir.to_vec(), used.listed_at);
        true
    }

    /// Opens and reads a file. Returns whether data was requested.
    fn open(&mut self, file: &[u8], size: u64, used: &NameUse) -> bool {
        if used.created {
            self.requests.add(Request::Create, 1);
        } else {
            self.request_open(file, used.opens);
        }
        if self.behavior.flushes {
            self.requests.add(Request::Flush, used.opens);
        }
        if used.created && used.reads == 0 {
            return false; // a file that the command only writes
        }
        self.read(file, size, reading(used, size, self.page))
    }

    /// Opens and closes a file, `times` times.
    fn request_open(&mut self, file: &[u8], times: u64) {
        let times = match self.behavior.delegations {
            true => u64::from(self.delegated.insert(file.to_vec())),
            false => times,
        };
        if self.behavior.opens {
            self.requests.add(Request::Open, times);
        }
        let close = match self.behavior.closes {
            true => Request::Close,
            false => Request::Release,
        };
        self.requests.add(close, times);
    }

    /// Executes a program: the kernel opens it and its interpreter, and reads the first page of
    /// each. Returns whether data of the program was requested.
    fn execute(&mut self, file: &[u8], times: u64, depth: u32) -> bool {
        /// The kernel's limit of interpreters that are scripts themselves.
        const DEEPEST: u32 = 5;
        let Node::File(size) = self.tree.node(file) else {
            return false;
        };
        let interpreter = self.tree.interpreter(file);
        let mut has_read = false;
        if self.tree.is_remote(parent(file)) {
            self.request_open(file, times);
            let reading = ReadPattern {
                first: self.page,
                extent: self.page,
                is_mapped: true,
                times,
            };
            has_read = self.read(file, size, reading);
        }
        if let Some(interpreter) = interpreter.filter(|_| depth < DEEPEST)
            && let Some((file, _)) = self.resolve(&interpreter, true, Purpose::Open, times)
        {
            self.execute(&file, times, depth + 1);
        }
        has_read
    }

    /// Fetches the attributes of a file that is examined after its data was requested, since the
    /// server has changed the access time. Page faults are simulated last, but before the file is
    /// opened again.
    fn fetch_attributes(&mut self, file: &[u8], used: &NameUse, has_read: bool) {
        if used.stats > 0 && self.stale.remove(file) {
            self.requests.add(Request::Getattr, 1);
        }
        if !has_read {
            return;
        }
        let is_mapped = self.files.get(file).is_some_and(|cached| cached.is_mapped);
        let again = is_mapped && used.opens + used.execs > 1 && used.stats > 1;
        let fetches = u64::from(used.stats_after_read > 0) + u64::from(again);
        self.requests.add(Request::Getattr, fetches.min(used.stats));
        let is_stale = if is_mapped {
            !again
        } else {
            !used.ends_with_stat
        };
        if is_stale {
            self.stale.insert(file.to_vec());
        }
    }

    /// Reads the uncached part of a file. Returns whether that takes a request.
    fn read(&mut self, file: &[u8], size: u64, reading: ReadPattern) -> bool {
        let page = self.page;
        let limits = Limits {
            window: self.behavior.window.max(page) / page,
            request: self.behavior.read_size.max(page) / page,
        };
        let (all, first) = (self.pages(size), self.pages(reading.first));
        let (cached, times) = match self.behavior.keeps_pages {
            true => (self.files.get(file).copied().unwrap_or_default(), 1),
            false => (CachedFile::default(), reading.times.max(1)),
        };
        let extent = reading.extent.min(size);
        let mut reads = Reads::default();
        if extent > cached.bytes {
            let before = match cached.bytes {
                0 => Reads::default(),
                bytes => sequential(all, self.pages(bytes), first, limits),
            };
            reads = sequential(all, self.pages(extent), first, limits).after(before);
        }
        if reading.is_mapped && !cached.is_mapped {
            reads = reads.and(faults(all, self.pages(extent.max(cached.bytes)), limits));
        }
        let is_asked = self.behavior.reads && reads.requests > 0;
        if is_asked {
            let Reads { waits, requests } = reads.times(times);
            self.requests.add(Request::Read, requests);
            self.requests.parallel_reads += requests.saturating_sub(waits);
            let end = match reading.is_mapped {
                true => size,
                false => extent.max(first_window(1, limits.window) * page).min(size),
            };
            self.requests.bytes += end.saturating_sub(cached.bytes) * times;
        }
        let now_cached = CachedFile {
            bytes: extent.max(cached.bytes),
            is_mapped: reading.is_mapped || cached.is_mapped,
        };
        if self.files.insert(file.to_vec(), now_cached).is_none() {
            self.bytes = self.bytes.saturating_add(size);
        }
        is_asked
    }

    fn pages(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.page)
    }
}

/// How a command read a file of `size` bytes that it opened.
fn reading(used: &NameUse, size: u64, page: u64) -> ReadPattern {
    ReadPattern {
        first: used.first,
        extent: used.extent,
        // ld.so reads only the first page and then maps the file, so assume a mapping if no more
        // was read.
        is_mapped: !used.created && used.extent <= page && size > used.extent,
        times: used.opens,
    }
}
