//! The requests of a start: which requests the same command makes on a network file system, with
//! cold and with warm caches, from the names that it has looked up here and what it did with them.
//! The model is described in docs/pathsearch.md.

use std::collections::{HashMap, HashSet, VecDeque};

use gate::cache::page_size;
use mounts::path::{join, parent};

use crate::lookup::{components, split};
use crate::request::{ClientBehavior, Request, Requests};
use crate::trace::NameUse;
use crate::tree::{FileTree, Node};

/// The requests of a start.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct StartRequests {
    /// With cold caches.
    pub cold: Requests,
    /// With the caches that the first start has filled.
    pub warm: Requests,
    /// The size of the files that are read.
    pub bytes: u64,
    /// The number of those files.
    pub files: u64,
}

/// Remote files that a command has used, to measure their file system with.
pub(crate) struct Samples {
    /// The largest first.
    pub(crate) files: Vec<Vec<u8>>,
    /// A symbolic link.
    pub(crate) link: Option<Vec<u8>>,
    /// Directories that the command has listed.
    pub(crate) listed: Vec<Vec<u8>>,
}

/// The requests of a start that uses these names, and of a second one right after it. `seconds` is how
/// long a start takes.
pub(crate) fn predict_requests(
    names: &[NameUse],
    tree: &mut dyn FileTree,
    behavior: &ClientBehavior,
    seconds: impl FnOnce(&Requests) -> f64,
) -> StartRequests {
    let mut client = Client::new(tree, *behavior);
    client.use_names(names);
    let cold = std::mem::take(&mut client.requests);
    if let Some(kept) = behavior.keeps_attributes {
        client.expire(names, seconds(&cold) / kept.as_secs_f64());
    }
    client.use_names(names);
    StartRequests {
        cold,
        warm: client.requests,
        bytes: client.bytes,
        files: client.files.len() as u64,
    }
}

/// The largest remote files of a start, a link, and directories that it lists.
pub(crate) fn samples(names: &[NameUse], tree: &mut dyn FileTree) -> Samples {
    const FILES: usize = 8;
    const LISTED: usize = 16;
    let mut client = Client::new(tree, ClientBehavior::default());
    client.use_names(names);
    let (files, links) = (client.files.into_keys(), client.links);
    let mut by_size: Vec<(u64, Vec<u8>)> = files
        .map(|file| match tree.node(&file) {
            Node::File(size) => (size, file),
            _ => (0, file),
        })
        .collect();
    by_size.sort_unstable_by(|a, b| b.cmp(a));
    let files = by_size.into_iter().take(FILES);
    let listed = names.iter();
    let listed = listed.filter(|used| used.listings > 0 && tree.is_remote(&used.path));
    Samples {
        listed: listed.take(LISTED).map(|used| used.path.to_vec()).collect(),
        files: files.map(|(_, file)| file).collect(),
        link: links.into_iter().min(),
    }
}

/// The LOOKUP requests for these names, without those for their directories.
pub(crate) fn count_lookups(
    names: &[Vec<u8>],
    tree: &mut dyn FileTree,
    behavior: &ClientBehavior,
) -> u64 {
    let mut client = Client::new(tree, *behavior);
    for name in names {
        client.resolve(split(name).0, true, Purpose::Look, 1);
    }
    let before = client.requests.get(Request::Lookup);
    for name in names {
        client.resolve(name, false, Purpose::Look, 1);
    }
    client.requests.get(Request::Lookup) - before
}

/// What a client has cached of a file.
#[derive(Clone, Copy, Default)]
struct CachedFile {
    /// The number of bytes, from its beginning, that were read.
    bytes: u64,
    /// Whether it was mapped.
    is_mapped: bool,
}

/// What a name is resolved for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Look,
    /// To open or execute the file.
    Open,
}

/// How a file is read.
#[derive(Clone, Copy)]
struct Reading {
    /// Bytes of the first read.
    first: u64,
    /// The offset at which the furthest read ends.
    extent: u64,
    /// Whether the file is mapped.
    is_mapped: bool,
    /// How many times it is opened.
    times: u64,
}

/// A client of a network file system, and what it has cached.
struct Client<'a> {
    tree: &'a mut dyn FileTree,
    behavior: ClientBehavior,
    names: HashSet<Vec<u8>>,
    links: HashSet<Vec<u8>>,
    files: HashMap<Vec<u8>, CachedFile>,
    /// Directories that were searched.
    searched: HashSet<Vec<u8>>,
    /// Directories that were listed, and the number of names that were used before.
    listed: HashMap<Vec<u8>, usize>,
    /// Files for which there is a delegation.
    delegated: HashSet<Vec<u8>>,
    /// Files and directories that were read since their attributes were fetched.
    stale: HashSet<Vec<u8>>,
    /// When each file and link was first and last looked up by name, in nanoseconds.
    looked_up: HashMap<Vec<u8>, (u64, u64)>,
    /// Files and links whose attributes are not kept any more.
    expired: HashSet<Vec<u8>>,
    /// When the name that is used was first and last looked up.
    now: (u64, u64),
    /// The number of names that were used.
    used: usize,
    /// Bytes of a page.
    page: u64,
    /// The size of the files that were read.
    bytes: u64,
    requests: Requests,
}

impl<'a> Client<'a> {
    fn new(tree: &'a mut dyn FileTree, behavior: ClientBehavior) -> Client<'a> {
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

    /// Does what the command did, once.
    fn use_names(&mut self, names: &[NameUse]) {
        for used in names {
            self.use_name(used);
            self.used += 1;
        }
    }

    /// Resolves a name, `times` times. Returns the file that it refers to, by its name without
    /// symbolic links, and what it is.
    fn resolve(
        &mut self,
        path: &[u8],
        follow: bool,
        purpose: Purpose,
        times: u64,
    ) -> Option<(Vec<u8>, Node)> {
        /// The most links that the kernel follows.
        const MOST_LINKS: u32 = 40;
        let mut left: VecDeque<Vec<u8>> = components(path).map(<[u8]>::to_vec).collect();
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
                    let parts: Vec<&[u8]> = components(target).collect();
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
            // The request that opens the file, which `open` or `execute` counts.
            Node::File(_) if is_opened => {}
            // A directory or a link cannot be opened so, and is looked up after all.
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

    /// Expires the attributes of all files and links without delegation that were not looked up for
    /// longer than attributes are kept, which is a part of the time of a start: `lifetimes` such
    /// times.
    fn expire(&mut self, names: &[NameUse], lifetimes: f64) {
        let begun = names.iter().map(|used| used.first_at).min();
        let ended = names.iter().map(|used| used.last_at).max();
        let all = ended
            .unwrap_or_default()
            .saturating_sub(begun.unwrap_or_default());
        // From the last lookup of one start to the first of the next.
        let is_old = |(first, last): (u64, u64)| {
            let between = all.saturating_sub(last.saturating_sub(first));
            between as f64 / all.max(1) as f64 * lifetimes > 1.0
        };
        let names = std::mem::take(&mut self.looked_up).into_iter();
        let old = names.filter(|(name, times)| is_old(*times) && !self.delegated.contains(name));
        self.expired = old.map(|(name, _)| name).collect();
    }

    /// Fetches the attributes of what a cached name refers to, if they have expired.
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

    /// Does what the command did with a name.
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

    /// Makes the lookups of a name, and returns what the last of them refers to.
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
    /// fetched what opening asks for. Returns whether it made a request for entries.
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
        // The last getdents64(2) of a listing finds the end, which the client knows.
        let requests = used.listings.div_ceil(used.opens).saturating_sub(1);
        self.requests.add(Request::Readdir, requests.max(1));
        self.listed.insert(dir.to_vec(), used.listed_at);
        true
    }

    /// Opens and reads a file. Returns whether it made a request for data.
    fn open(&mut self, file: &[u8], size: u64, used: &NameUse) -> bool {
        if used.created {
            self.requests.add(Request::Create, 1);
        } else {
            self.request_open(file, used.opens);
        }
        if self.behavior.flushes {
            self.requests.add(Request::Flush, used.opens);
        }
        self.read(file, size, reading(used, size, self.page))
    }

    /// Opens a file, and closes it.
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
    /// both. Returns whether it made a request for data of the program.
    fn execute(&mut self, file: &[u8], times: u64, depth: u32) -> bool {
        /// The most interpreters of interpreters that the kernel accepts.
        const DEEPEST: u32 = 5;
        let Node::File(size) = self.tree.node(file) else {
            return false;
        };
        let interpreter = self.tree.interpreter(file);
        let mut has_read = false;
        if self.tree.is_remote(parent(file)) {
            self.request_open(file, times);
            let reading = Reading {
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

    /// Fetches the attributes of a file that is examined after a request for its data: the server
    /// has changed its access time. Page faults come after everything else that is done with a
    /// file, but before it is opened again.
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

    /// Reads what is not cached. Returns whether that takes a request.
    fn read(&mut self, file: &[u8], size: u64, reading: Reading) -> bool {
        let page = self.page;
        let window = self.behavior.window.max(page) / page;
        let (all, first) = (self.pages(size), self.pages(reading.first));
        let (cached, times) = match self.behavior.keeps_pages {
            true => (self.files.get(file).copied().unwrap_or_default(), 1),
            false => (CachedFile::default(), reading.times.max(1)),
        };
        let extent = reading.extent.min(size);
        let mut requests = 0;
        if extent > cached.bytes {
            let before = match cached.bytes {
                0 => 0,
                bytes => sequential(all, self.pages(bytes), first, window),
            };
            requests += sequential(all, self.pages(extent), first, window).saturating_sub(before);
        }
        if reading.is_mapped && !cached.is_mapped {
            requests += faults(all, self.pages(extent.max(cached.bytes)), window);
        }
        if self.behavior.reads && requests > 0 {
            self.requests.add(Request::Read, requests * times);
            let end = match reading.is_mapped {
                true => size,
                false => extent.max(first_window(1, window) * page).min(size),
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
        self.behavior.reads && requests > 0
    }

    fn pages(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.page)
    }
}

/// The requests for the first `wanted` pages of a file of `all` pages, when the first read is of
/// `first` pages and the readahead is at most `most` pages.
fn sequential(all: u64, wanted: u64, first: u64, most: u64) -> u64 {
    if wanted == 0 || all == 0 {
        return 0;
    }
    let first = first.max(1);
    let mut window = first_window(first, most);
    let mut have = window.min(all);
    // Reading this page starts the next readahead: the first page after the read itself.
    let mut mark = if window > first { first } else { 0 };
    let mut requests = 1;
    while have < all && wanted > mark {
        mark = have;
        window = next_window(window, most);
        have = (have + window).min(all);
        requests += 1;
    }
    requests
}

/// The requests for the page faults of a mapped file of `all` pages, beyond the first `have` pages. A
/// fault reads half a window on each side. Which pages a program touches is unknown: all of them are
/// counted.
fn faults(all: u64, have: u64, window: u64) -> u64 {
    let have = match have {
        0 => 0,
        have => have.max(first_window(1, window)),
    };
    all.saturating_sub(have).div_ceil(window)
}

/// How a command read a file of `size` bytes that it opened.
fn reading(used: &NameUse, size: u64, page: u64) -> Reading {
    Reading {
        first: used.first,
        extent: used.extent,
        // A file that is opened and not read beyond its first page, which is as far as ld.so reads,
        // is taken to be mapped.
        is_mapped: !used.created && used.extent <= page && size > used.extent,
        times: used.opens,
    }
}

/// The first readahead window, in pages, for a first read of this many pages; see mm/readahead.c.
fn first_window(pages: u64, most: u64) -> u64 {
    let size = pages.max(1).next_power_of_two();
    if size <= most / 32 {
        size * 4
    } else if size <= most / 4 {
        size * 2
    } else {
        most
    }
}

/// The next readahead window.
fn next_window(window: u64, most: u64) -> u64 {
    if window < most / 16 {
        window * 4
    } else if window <= most / 2 {
        window * 2
    } else {
        most
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::kind::Count;

    /// A file tree that is remote, except for `/proc`.
    struct Remote(BTreeMap<&'static [u8], Node>);

    impl FileTree for Remote {
        fn node(&mut self, path: &[u8]) -> Node {
            self.0.get(path).cloned().unwrap_or(Node::Missing)
        }
        fn interpreter(&mut self, path: &[u8]) -> Option<Vec<u8>> {
            (path == b"/usr/bin/tool").then(|| b"/lib64/ld.so".to_vec())
        }
        fn is_remote(&mut self, dir: &[u8]) -> bool {
            !dir.starts_with(b"/proc")
        }
        fn time_miss(&mut self, _: &[u8]) -> Option<f64> {
            None
        }
    }

    fn tree() -> Remote {
        let link = |to: &[u8]| Node::Link(to.to_vec());
        let nodes: [(&[u8], Node); 12] = [
            (b"/usr", Node::Directory),
            (b"/usr/bin", Node::Directory),
            (b"/usr/bin/tool", Node::File(10_000)),
            (b"/usr/lib64", Node::Directory),
            (b"/usr/lib64/ld.so", Node::File(200_000)),
            (b"/usr/lib64/libc.so", Node::File(2 << 20)),
            (b"/lib64", link(b"usr/lib64")),
            (b"/bin", link(b"/usr/bin")),
            (b"/loop", link(b"/loop")),
            (b"/proc", Node::Directory),
            (b"/proc/self", Node::Directory),
            (b"/data", Node::File(300_000)),
        ];
        Remote(BTreeMap::from(nodes))
    }

    fn used(path: &str, hits: u64, misses: u64) -> NameUse {
        NameUse {
            count: Count { hits, misses },
            follow: true,
            path: path.as_bytes().into(),
            ..NameUse::default()
        }
    }

    fn requests(names: &[NameUse], behavior: &ClientBehavior) -> Vec<(&'static str, u64, u64)> {
        requests_after(names, behavior, 0.0)
    }

    /// The same if the first start takes these seconds.
    fn requests_after(
        names: &[NameUse],
        behavior: &ClientBehavior,
        seconds: f64,
    ) -> Vec<(&'static str, u64, u64)> {
        let predicted = predict_requests(names, &mut tree(), behavior, |_| seconds);
        let rows = predicted
            .cold
            .iter()
            .map(|(request, cold)| (request.name(), cold, predicted.warm.get(request)));
        rows.filter(|(_, cold, warm)| cold + warm > 0).collect()
    }

    #[test]
    fn each_component_is_looked_up_once_and_nothing_below_a_missing_one() {
        let names = [
            used("/usr/bin/a", 0, 3),
            used("/usr/bin/b", 0, 1),
            used("/none/x/y", 0, 1),
            used("/none/z", 0, 1),
        ];
        assert_eq!(requests(&names, &ClientBehavior::OTHER), [("LOOKUP", 5, 0)]);
        // Without negative caching: a three times, b once, and the missing directory for both names
        // in it. usr and bin exist.
        let forgets = ClientBehavior {
            keeps_misses: false,
            ..ClientBehavior::OTHER
        };
        assert_eq!(requests(&names, &forgets), [("LOOKUP", 8, 6)]);
    }

    #[test]
    fn links_are_followed_and_loops_end() {
        assert_eq!(
            requests(&[used("/bin/tool", 1, 0)], &ClientBehavior::OTHER),
            [("LOOKUP", 4, 0), ("READLINK", 1, 0)]
        );
        assert_eq!(
            requests(&[used("/loop", 0, 1)], &ClientBehavior::OTHER),
            [("LOOKUP", 1, 0), ("READLINK", 1, 0)]
        );
        let itself = NameUse {
            follow: false,
            nofollow: true,
            readlinks: 1,
            ..used("/bin", 1, 0)
        };
        assert_eq!(
            requests(&[itself], &ClientBehavior::OTHER),
            [("LOOKUP", 1, 0), ("READLINK", 1, 0)]
        );
        assert_eq!(
            requests(&[used("/usr/../proc/self/x", 0, 1)], &ClientBehavior::OTHER),
            [("LOOKUP", 2, 0)]
        );
    }

    #[test]
    fn a_program_and_its_interpreter_are_opened_each_time() {
        let run = NameUse {
            execs: 2,
            ..used("/usr/bin/tool", 2, 0)
        };
        let expected = [
            ("LOOKUP", 6, 0),
            ("READLINK", 1, 0),
            ("OPEN", 4, 4),
            ("READ", 2 + 3, 0),
            ("RELEASE", 4, 4),
        ];
        let found = requests(&[run], &ClientBehavior::OTHER);
        assert_eq!((&found[..3], found[4]), (&expected[..3], expected[4]));
        assert!((4..=5).contains(&found[3].1), "{found:?}");
    }

    #[test]
    fn a_file_is_read_once_by_readahead_windows() {
        let read = NameUse {
            opens: 3,
            reads: 9,
            first: 4096,
            extent: 300_000,
            ..used("/data", 3, 0)
        };
        // 4, 8, 16, 32 pages, and the rest of 74.
        assert_eq!(
            requests(std::slice::from_ref(&read), &ClientBehavior::OTHER),
            [
                ("LOOKUP", 1, 0),
                ("OPEN", 3, 3),
                ("READ", 5, 0),
                ("RELEASE", 3, 3)
            ]
        );
        let forgets = ClientBehavior {
            keeps_pages: false,
            opens: false,
            ..ClientBehavior::OTHER
        };
        assert_eq!(
            requests(&[read], &forgets),
            [("LOOKUP", 1, 0), ("READ", 15, 15), ("RELEASE", 3, 3)]
        );
    }

    #[test]
    fn nfs_4_opens_a_name_without_a_lookup_and_once() {
        let program = NameUse {
            execs: 3,
            opened_first: true,
            ..used("/usr/bin/tool", 3, 0)
        };
        // The directories and the link lib64 are looked up; the program and its interpreter are not.
        assert_eq!(
            requests(&[program], &ClientBehavior::NFS_4),
            [
                ("LOOKUP", 4, 0),
                ("ACCESS", 4, 0),
                ("READLINK", 1, 0),
                ("OPEN", 2, 0),
                ("READ", 4, 0),
                ("CLOSE", 2, 0)
            ]
        );
        let failed = NameUse {
            opened_first: true,
            ..used("/usr/bin/none", 0, 1)
        };
        assert_eq!(
            requests(&[failed], &ClientBehavior::NFS_4)[0],
            ("LOOKUP", 3, 0)
        );
    }

    #[test]
    fn nfs_fetches_attributes_once_after_a_read_and_at_each_opening_of_a_directory() {
        let with = |used: NameUse| requests(&[used], &ClientBehavior::NFS_4);
        let fetched = |used: NameUse| {
            let all = with(used);
            let found = all.iter().find(|(name, ..)| *name == "GETATTR");
            found.map_or((0, 0), |(_, cold, warm)| (*cold, *warm))
        };
        let read = NameUse {
            opens: 1,
            reads: 1,
            first: 4096,
            extent: 1 << 20,
            stats: 2,
            ..used("/lib64/ld.so", 1, 0)
        };
        // Examined before it is read: then the second start fetches what the read has changed.
        assert_eq!(fetched(read.clone()), (0, 1));
        let examined_later = NameUse {
            stats_after_read: 1,
            ends_with_stat: true,
            ..read
        };
        assert_eq!(fetched(examined_later), (1, 0));
        // Without a delegation, and not looked up for more than 3 s: the file, and the link.
        let examined = NameUse {
            first_at: 1,
            last_at: 1,
            ..used("/lib64/ld.so", 1, 0)
        };
        let fetched_after = |seconds, other: &str| {
            let other = NameUse {
                first_at: 2,
                last_at: 101,
                ..used(other, 0, 2)
            };
            let names = [examined.clone(), other];
            let all = requests_after(&names, &ClientBehavior::NFS_4, seconds);
            let found = all.iter().find(|(name, ..)| *name == "GETATTR");
            found.map_or(0, |(_, _, warm)| *warm)
        };
        assert_eq!(fetched_after(2.0, "/usr/none"), 0);
        assert_eq!(fetched_after(4.0, "/usr/none"), 2);
        // The link is used during all of the start.
        assert_eq!(fetched_after(4.0, "/lib64/none"), 1);
        let listed = NameUse {
            opens: 2,
            listings: 4,
            ..used("/usr", 1, 0)
        };
        let all = with(listed);
        assert!(all.contains(&("OPENDIR", 2, 2)), "{all:?}");
        assert!(all.contains(&("READDIR", 1, 0)), "{all:?}");
    }

    #[test]
    fn the_windows_are_those_of_the_kernel() {
        assert_eq!(
            [1, 2, 8, 20].map(|pages| first_window(pages, 32)),
            [4, 4, 16, 32]
        );
        assert_eq!([4, 16, 32].map(|pages| next_window(pages, 32)), [8, 32, 32]);
        assert_eq!(
            (
                sequential(0, 0, 0, 32),
                sequential(1, 1, 1, 32),
                faults(256, 1, 32)
            ),
            (0, 1, 8)
        );
        assert_eq!(faults(1, 1, 32), 0);
    }

    #[test]
    fn counted_lookups_exclude_those_of_the_directories() {
        let names = [
            b"/usr/bin/x".to_vec(),
            b"/usr/bin/y".to_vec(),
            b"/gone/x".to_vec(),
            b"/gone/y".to_vec(),
        ];
        assert_eq!(
            count_lookups(&names, &mut tree(), &ClientBehavior::OTHER),
            2
        );
    }
}
