//! The requests of a start: which requests the same command makes on a network file system, with
//! cold and with warm caches, from the names that it has looked up here and what it did with them.
//! The model is described in docs/pathsearch.md.

use std::collections::{HashMap, HashSet, VecDeque};

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

const PAGE: u64 = 4096;

/// The requests of a start that uses these names.
pub(crate) fn predict_requests(
    names: &[NameUse],
    tree: &mut dyn FileTree,
    behavior: &ClientBehavior,
) -> StartRequests {
    let mut client = Client::new(tree, *behavior);
    names.iter().for_each(|used| client.use_name(used));
    let cold = std::mem::take(&mut client.requests);
    names.iter().for_each(|used| client.use_name(used));
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
    names.iter().for_each(|used| client.use_name(used));
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
        client.resolve(split(name).0, true, 1);
    }
    let before = client.requests.get(Request::Lookup);
    for name in names {
        client.resolve(name, false, 1);
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
            bytes: 0,
            requests: Requests::default(),
        }
    }

    /// Resolves a name, `times` times. Returns the file that it refers to, by its name without
    /// symbolic links, and what it is.
    fn resolve(&mut self, path: &[u8], follow: bool, times: u64) -> Option<(Vec<u8>, Node)> {
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
            node = self.look_up(&here, &next, times);
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
    fn look_up(&mut self, dir: &[u8], path: &[u8], times: u64) -> Node {
        let node = self.tree.node(path);
        let keeps = match node {
            Node::Missing => self.behavior.keeps_misses,
            _ => self.behavior.keeps_names,
        };
        let is_cached = keeps && self.names.contains(path);
        if self.tree.is_remote(dir) && !is_cached {
            let requests = if keeps { 1 } else { times };
            self.requests.add(Request::Lookup, requests);
            self.names.insert(path.to_vec());
        }
        node
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
        let Some((file, node)) = self.look_up_all(used) else {
            return;
        };
        if used.execs > 0 {
            self.execute(&file, used.execs, 0);
        }
        let is_remote = match node {
            Node::Directory => self.tree.is_remote(&file),
            _ => self.tree.is_remote(parent(&file)),
        };
        if used.opens == 0 || !is_remote {
            return;
        }
        match node {
            Node::Directory => {
                if self.behavior.lists {
                    self.requests.add(Request::Opendir, used.opens);
                    self.requests.add(Request::Readdir, used.listings);
                }
                self.requests.add(Request::Release, used.opens);
            }
            Node::File(size) => self.open(&file, size, used),
            _ => {}
        }
    }

    /// Makes the lookups of a name, and returns what the last of them refers to.
    fn look_up_all(&mut self, used: &NameUse) -> Option<(Vec<u8>, Node)> {
        let times = used.count.hits + used.count.misses;
        let mut resolved = None;
        if used.nofollow {
            resolved = self.resolve(&used.path, false, if used.follow { 1 } else { times });
            if used.readlinks > 0
                && let Some((link, Node::Link(_))) = &resolved
                && self.tree.is_remote(parent(link))
            {
                self.read_link(link, used.readlinks);
            }
        }
        if used.follow {
            resolved = self.resolve(&used.path, true, times);
        }
        resolved
    }

    /// Opens and reads a file.
    fn open(&mut self, file: &[u8], size: u64, used: &NameUse) {
        if used.created {
            self.requests.add(Request::Create, 1);
        } else if self.behavior.opens {
            self.requests.add(Request::Open, used.opens);
        }
        self.requests.add(Request::Release, used.opens);
        if self.behavior.flushes {
            self.requests.add(Request::Flush, used.opens);
        }
        if self.behavior.stats_after_read {
            self.requests.add(Request::Getattr, used.stats_after_read);
        }
        let reading = Reading {
            first: used.first,
            extent: used.extent,
            // A file that is opened and not read beyond its first page, which is as far as ld.so
            // reads, is taken to be mapped.
            is_mapped: !used.created && used.extent <= PAGE && size > used.extent,
            times: used.opens,
        };
        self.read(file, size, reading);
    }

    /// Executes a program: the kernel opens it and its interpreter, and reads the first page of
    /// both.
    fn execute(&mut self, file: &[u8], times: u64, depth: u32) {
        /// The most interpreters of interpreters that the kernel accepts.
        const DEEPEST: u32 = 5;
        let Node::File(size) = self.tree.node(file) else {
            return;
        };
        let interpreter = self.tree.interpreter(file);
        if self.tree.is_remote(parent(file)) {
            if self.behavior.opens {
                self.requests.add(Request::Open, times);
            }
            self.requests.add(Request::Release, times);
            let reading = Reading {
                first: PAGE,
                extent: PAGE,
                is_mapped: true,
                times,
            };
            self.read(file, size, reading);
        }
        let Some(interpreter) = interpreter.filter(|_| depth < DEEPEST) else {
            return;
        };
        if let Some((file, _)) = self.resolve(&interpreter, true, times) {
            self.execute(&file, times, depth + 1);
        }
    }

    /// Reads what is not cached.
    fn read(&mut self, file: &[u8], size: u64, reading: Reading) {
        let window = self.behavior.window.max(PAGE) / PAGE;
        let (cached, times) = match self.behavior.keeps_pages {
            true => (self.files.get(file).copied().unwrap_or_default(), 1),
            false => (CachedFile::default(), reading.times.max(1)),
        };
        let extent = reading.extent.min(size);
        let mut requests = 0;
        if extent > cached.bytes {
            let before = match cached.bytes {
                0 => 0,
                bytes => sequential(size, bytes, reading.first, window),
            };
            requests += sequential(size, extent, reading.first, window).saturating_sub(before);
        }
        if reading.is_mapped && !cached.is_mapped {
            requests += faults(size, extent.max(cached.bytes), window);
        }
        if self.behavior.reads && requests > 0 {
            self.requests.add(Request::Read, requests * times);
            let end = match reading.is_mapped {
                true => size,
                false => extent.max(first_window(1, window) * PAGE).min(size),
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
    }
}

fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE)
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

/// The requests for the first `extent` bytes of a file of `size` bytes, when the first read is of
/// `first` bytes and the readahead is at most `most` pages.
fn sequential(size: u64, extent: u64, first: u64, most: u64) -> u64 {
    let (all, wanted) = (pages(size), pages(extent));
    if wanted == 0 || all == 0 {
        return 0;
    }
    let first = pages(first).max(1);
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

/// The requests for the page faults of a mapped file, beyond the first `have` bytes. A fault reads
/// half a window on each side. Which pages a program touches is unknown: all of them are counted.
fn faults(size: u64, have: u64, window: u64) -> u64 {
    let have = if have == 0 {
        0
    } else {
        pages(have).max(first_window(1, window))
    };
    pages(size).saturating_sub(have).div_ceil(window)
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
        let predicted = predict_requests(names, &mut tree(), behavior);
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
        assert_eq!(
            requests(&names, &ClientBehavior::default()),
            [("LOOKUP", 5, 0)]
        );
        // Without negative caching: a three times, b once, and the missing directory for both names
        // in it. usr and bin exist.
        let forgets = ClientBehavior {
            keeps_misses: false,
            ..ClientBehavior::default()
        };
        assert_eq!(requests(&names, &forgets), [("LOOKUP", 8, 6)]);
    }

    #[test]
    fn links_are_followed_and_loops_end() {
        assert_eq!(
            requests(&[used("/bin/tool", 1, 0)], &ClientBehavior::default()),
            [("LOOKUP", 4, 0), ("READLINK", 1, 0)]
        );
        assert_eq!(
            requests(&[used("/loop", 0, 1)], &ClientBehavior::default()),
            [("LOOKUP", 1, 0), ("READLINK", 1, 0)]
        );
        let itself = NameUse {
            follow: false,
            nofollow: true,
            readlinks: 1,
            ..used("/bin", 1, 0)
        };
        assert_eq!(
            requests(&[itself], &ClientBehavior::default()),
            [("LOOKUP", 1, 0), ("READLINK", 1, 0)]
        );
        assert_eq!(
            requests(
                &[used("/usr/../proc/self/x", 0, 1)],
                &ClientBehavior::default()
            ),
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
        let found = requests(&[run], &ClientBehavior::default());
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
            requests(std::slice::from_ref(&read), &ClientBehavior::default()),
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
            ..ClientBehavior::default()
        };
        assert_eq!(
            requests(&[read], &forgets),
            [("LOOKUP", 1, 0), ("READ", 15, 15), ("RELEASE", 3, 3)]
        );
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
                sequential(100, 100, 100, 32),
                faults(1 << 20, 4096, 32)
            ),
            (0, 1, 8)
        );
        assert_eq!(faults(10, 10, 32), 0);
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
            count_lookups(&names, &mut tree(), &ClientBehavior::default()),
            2
        );
    }
}
