//! What a start asks of a server: from the names that were looked up here, and what was done with
//! them, the requests that the same start makes on a network file system, with empty caches and
//! with full ones. The model is stated in docs/pathsearch.md.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::calibrate::Examples;
use crate::trace::Touch;
use crate::tree::{Look, Node};

/// What a client asks a server for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Request {
    /// A component of a name, once it is not in the dentry cache.
    Lookup,
    /// Where a symbolic link leads.
    Readlink,
    /// To open a file.
    Open,
    /// To make one.
    Create,
    /// A piece of a file.
    Read,
    /// Attributes that are not held any more.
    Getattr,
    /// That a descriptor is closed, of which somebody waits to hear that nothing went wrong.
    Flush,
    /// To open a directory.
    Opendir,
    /// A piece of a directory.
    Readdir,
    /// That a file is closed; nobody waits for the answer.
    Release,
}

impl Request {
    /// All of them.
    pub const ALL: [Request; 10] = [
        Request::Lookup,
        Request::Readlink,
        Request::Open,
        Request::Create,
        Request::Read,
        Request::Getattr,
        Request::Flush,
        Request::Opendir,
        Request::Readdir,
        Request::Release,
    ];

    /// As FUSE calls it.
    pub fn name(self) -> &'static str {
        match self {
            Request::Lookup => "LOOKUP",
            Request::Readlink => "READLINK",
            Request::Open => "OPEN",
            Request::Create => "CREATE",
            Request::Read => "READ",
            Request::Getattr => "GETATTR",
            Request::Flush => "FLUSH",
            Request::Opendir => "OPENDIR",
            Request::Readdir => "READDIR",
            Request::Release => "RELEASE",
        }
    }

    /// Whether whoever makes it waits for the answer.
    pub fn is_waited_for(self) -> bool {
        self != Request::Release
    }
}

/// How many of each.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Requests {
    counts: [u64; Request::ALL.len()],
    /// Bytes that those for data bring.
    pub bytes: u64,
}

impl Requests {
    /// How many of one kind.
    pub fn of(&self, request: Request) -> u64 {
        self.counts[request as usize]
    }

    /// Adds some.
    pub fn add(&mut self, request: Request, n: u64) {
        self.counts[request as usize] += n;
    }

    /// Those that somebody waits for.
    pub fn waited(&self) -> u64 {
        Request::ALL
            .iter()
            .filter(|request| request.is_waited_for())
            .map(|request| self.of(*request))
            .sum()
    }

    /// All of them.
    pub fn all(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// One kind after the other.
    pub fn iter(&self) -> impl Iterator<Item = (Request, u64)> {
        Request::ALL
            .into_iter()
            .map(|request| (request, self.of(request)))
    }
}

/// What requests take: seconds for which whoever makes one waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    each: [f64; Request::ALL.len()],
    /// What each byte takes that a request for data brings.
    pub byte: f64,
}

impl Prices {
    /// All the same: a round trip.
    pub fn alike(rtt: f64) -> Prices {
        Prices {
            each: [rtt; Request::ALL.len()],
            byte: 0.0,
        }
    }

    /// What one of a kind takes; one for data, beside its bytes.
    pub fn of(&self, request: Request) -> f64 {
        self.each[request as usize]
    }

    /// Says what one of a kind takes.
    pub fn set(&mut self, request: Request, seconds: f64) {
        self.each[request as usize] = seconds;
    }

    /// How long is waited for requests of one kind, one after the other.
    pub fn seconds_of(&self, request: Request, among: &Requests) -> f64 {
        let bytes = if request == Request::Read {
            among.bytes as f64 * self.byte
        } else {
            0.0
        };
        if request.is_waited_for() {
            among.of(request) as f64 * self.of(request) + bytes
        } else {
            0.0
        }
    }

    /// How long is waited for all of them, one after the other.
    pub fn seconds(&self, of: &Requests) -> f64 {
        Request::ALL
            .into_iter()
            .map(|request| self.seconds_of(request, of))
            .sum()
    }
}

/// What a client of a network file system keeps, and what it asks again for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// It remembers what a name leads to.
    pub keeps_names: bool,
    /// It remembers that a name is not there.
    pub keeps_misses: bool,
    /// It remembers where links lead.
    pub keeps_links: bool,
    /// It keeps what it has read when a file is opened again that was not changed.
    pub keeps_pages: bool,
    /// After a read it asks for the attributes again, since the time of the last access has
    /// changed.
    pub stats_after_read: bool,
    /// To open a file is a request.
    pub opens: bool,
    /// To close a file is a request that is waited for.
    pub flushes: bool,
    /// To read what is not in memory is a request.
    pub reads: bool,
    /// To open a directory and to read it are requests.
    pub lists: bool,
    /// Bytes that one request for data brings at most.
    pub window: u64,
}

impl Default for Manner {
    /// As NFS does it: everything is kept, and at each opening the server is asked.
    fn default() -> Manner {
        Manner {
            keeps_names: true,
            keeps_misses: true,
            keeps_links: true,
            keeps_pages: true,
            stats_after_read: false,
            opens: true,
            flushes: false,
            reads: true,
            lists: true,
            window: 128 << 10,
        }
    }
}

/// What a start asks for.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// With empty caches.
    pub cold: Requests,
    /// Once more, right afterwards.
    pub warm: Requests,
    /// Bytes of the files that are read.
    pub bytes: u64,
    /// Those files.
    pub files: u64,
}

const PAGE: u64 = 4096;

/// The requests of a start.
pub fn predict(touched: &[Touch], look: &mut dyn Look, manner: &Manner) -> Prediction {
    let mut client = Client::new(look, *manner);
    touched.iter().for_each(|touch| client.touch(touch));
    let cold = client.requests;
    client.requests = Requests::default();
    touched.iter().for_each(|touch| client.touch(touch));
    Prediction {
        cold,
        warm: client.requests,
        bytes: client.bytes,
        files: client.files.len() as u64,
    }
}

/// What a start uses on the file system that the model is about: the largest files, a link,
/// directories that are listed.
pub fn examples(touched: &[Touch], look: &mut dyn Look) -> Examples {
    const FILES: usize = 8;
    const LISTED: usize = 16;
    let mut client = Client::new(look, Manner::default());
    touched.iter().for_each(|touch| client.touch(touch));
    let (files, links) = (client.files, client.links);
    let size = |file: &[u8], look: &mut dyn Look| match look.node(file) {
        Node::File(size) => size,
        _ => 0,
    };
    let mut files: Vec<(u64, Vec<u8>)> = files
        .into_keys()
        .map(|file| (size(&file, look), file))
        .collect();
    files.sort_unstable_by(|a, b| b.cmp(a));
    let listed = touched
        .iter()
        .filter(|touch| touch.listings > 0 && look.far(&touch.path));
    Examples {
        listed: listed
            .take(LISTED)
            .map(|touch| touch.path.to_vec())
            .collect(),
        files: files
            .into_iter()
            .take(FILES)
            .map(|(_, file)| file)
            .collect(),
        link: links.into_iter().min(),
    }
}

/// Requests of the kind that a search makes: the look-ups of these names in their directories,
/// without those of the directories.
pub fn lookups_of(names: &[Vec<u8>], look: &mut dyn Look, manner: &Manner) -> u64 {
    let mut client = Client::new(look, *manner);
    for name in names {
        let (dir, _) = crate::lookup::split(name);
        client.walk(dir, true, 1);
    }
    let before = client.requests.of(Request::Lookup);
    for name in names {
        client.walk(name, false, 1);
    }
    client.requests.of(Request::Lookup) - before
}

/// A client, and what it keeps.
struct Client<'a> {
    look: &'a mut dyn Look,
    manner: Manner,
    names: HashSet<Vec<u8>>,
    links: HashSet<Vec<u8>>,
    /// Files of which pages have been read: bytes that came by reading, and whether it was mapped.
    files: HashMap<Vec<u8>, (u64, bool)>,
    bytes: u64,
    requests: Requests,
}

impl<'a> Client<'a> {
    fn new(look: &'a mut dyn Look, manner: Manner) -> Client<'a> {
        Client {
            look,
            manner,
            names: HashSet::new(),
            links: HashSet::new(),
            files: HashMap::new(),
            bytes: 0,
            requests: Requests::default(),
        }
    }

    /// Goes along a name, `times` times, and says what it leads to: its name without links, and
    /// what it is.
    fn walk(&mut self, path: &[u8], follow: bool, times: u64) -> Option<(Vec<u8>, Node)> {
        /// As many links as the kernel follows.
        const MOST_LINKS: u32 = 40;
        let mut left: VecDeque<Vec<u8>> = crate::lookup::components(path)
            .map(<[u8]>::to_vec)
            .collect();
        let mut here = b"/".to_vec();
        let mut links = 0;
        let mut node = Node::Directory;
        while let Some(part) = left.pop_front() {
            if part == b"." {
                continue;
            }
            if part == b".." {
                here = mounts::path::parent(&here).to_vec();
                node = Node::Directory;
                continue;
            }
            if node != Node::Directory {
                return None;
            }
            let next = mounts::path::join(&here, &part);
            let far = self.look.far(&here);
            let known = self.names.contains(&next);
            node = self.look.node(&next);
            let last = left.is_empty();
            let keeps = if node == Node::Missing {
                self.manner.keeps_misses
            } else {
                self.manner.keeps_names
            };
            if far && !(known && keeps) {
                self.requests
                    .add(Request::Lookup, if keeps { 1 } else { times });
                self.names.insert(next.clone());
            }
            match &node {
                Node::Missing => return None,
                Node::Link(_) if last && !follow => return Some((next, node)),
                Node::Link(target) => {
                    links += 1;
                    if links > MOST_LINKS {
                        return None;
                    }
                    if far {
                        self.readlink(&next, times);
                    }
                    if target.starts_with(b"/") {
                        here = b"/".to_vec();
                    }
                    for part in target
                        .rsplit(|&b| b == b'/')
                        .filter(|part| !part.is_empty())
                    {
                        left.push_front(part.to_vec());
                    }
                    node = Node::Directory;
                }
                _ => here = next,
            }
        }
        Some((here, node))
    }

    fn readlink(&mut self, path: &[u8], times: u64) {
        let fresh = self.links.insert(path.to_vec());
        match self.manner.keeps_links {
            true if fresh => self.requests.add(Request::Readlink, 1),
            true => {}
            false => self.requests.add(Request::Readlink, times),
        }
    }

    fn touch(&mut self, touch: &Touch) {
        let times = touch.count.hits + touch.count.misses;
        let mut led = None;
        if touch.nofollow {
            led = self.walk(&touch.path, false, if touch.follow { 1 } else { times });
            if touch.readlinks > 0
                && let Some((link, Node::Link(_))) = &led
                && self.look.far(mounts::path::parent(link))
            {
                self.readlink(&link.clone(), touch.readlinks);
            }
        }
        if touch.follow {
            led = self.walk(&touch.path, true, times);
        }
        let Some((file, node)) = led else { return };
        let far = if node == Node::Directory {
            self.look.far(&file)
        } else {
            self.look.far(mounts::path::parent(&file))
        };
        if touch.execs > 0 {
            self.run(&file, touch.execs, 0);
        }
        if touch.opens == 0 || !far {
            return;
        }
        match node {
            Node::Directory => {
                if self.manner.lists {
                    self.requests.add(Request::Opendir, touch.opens);
                    self.requests.add(Request::Readdir, touch.listings);
                }
                self.requests.add(Request::Release, touch.opens);
            }
            Node::File(size) => {
                if touch.made {
                    self.requests.add(Request::Create, 1);
                } else if self.manner.opens {
                    self.requests.add(Request::Open, touch.opens);
                }
                self.requests.add(Request::Release, touch.opens);
                if self.manner.flushes {
                    self.requests.add(Request::Flush, touch.opens);
                }
                if self.manner.stats_after_read {
                    self.requests.add(Request::Getattr, touch.stats_after_read);
                }
                // What is opened and not read, or no further than ld.so reads, is mapped.
                let mapped = !touch.made && touch.extent <= PAGE && size > touch.extent;
                self.read(
                    &file,
                    size,
                    (touch.first, touch.extent),
                    mapped,
                    touch.opens,
                );
            }
            _ => {}
        }
    }

    /// A program is run: the kernel opens it and its interpreter, and reads the beginning of both.
    fn run(&mut self, file: &[u8], times: u64, depth: u32) {
        /// As deep as the kernel goes.
        const DEEPEST: u32 = 5;
        let Node::File(size) = self.look.node(file) else {
            return;
        };
        let interpreter = self.look.interpreter(file);
        if self.look.far(mounts::path::parent(file)) {
            if self.manner.opens {
                self.requests.add(Request::Open, times);
            }
            self.requests.add(Request::Release, times);
            self.read(file, size, (PAGE, PAGE), true, times);
        }
        let Some(interpreter) = interpreter.filter(|_| depth < DEEPEST) else {
            return;
        };
        if let Some((file, _)) = self.walk(&interpreter, true, times) {
            self.run(&file, times, depth + 1);
        }
    }

    /// Data is asked for that is not there yet.
    fn read(
        &mut self,
        file: &[u8],
        size: u64,
        (first, extent): (u64, u64),
        mapped: bool,
        times: u64,
    ) {
        let window = self.manner.window.max(PAGE) / PAGE;
        let times = if self.manner.keeps_pages {
            1
        } else {
            times.max(1)
        };
        let (had, was_mapped) = self
            .files
            .get(file)
            .copied()
            .filter(|_| self.manner.keeps_pages)
            .unwrap_or_default();
        let extent = extent.min(size);
        let mut requests = 0;
        if extent > had {
            let before = if had > 0 {
                sequential(size, had, first, window)
            } else {
                0
            };
            requests += sequential(size, extent, first, window).saturating_sub(before);
        }
        if mapped && !was_mapped {
            requests += faults(size, extent.max(had), window);
        }
        if self.manner.reads && requests > 0 {
            self.requests.add(Request::Read, requests * times);
            let brought = if mapped {
                size
            } else {
                extent.max(first_window(1, window) * PAGE).min(size)
            };
            self.requests.bytes += brought.saturating_sub(had) * times;
        }
        if self
            .files
            .insert(file.to_vec(), (extent.max(had), mapped || was_mapped))
            .is_none()
        {
            self.bytes = self.bytes.saturating_add(size);
        }
    }
}

fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE)
}

/// The first window of the readahead for a first read of so many pages, as in mm/readahead.c.
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

/// The window after this one.
fn next_window(window: u64, most: u64) -> u64 {
    if window < most / 16 {
        window * 4
    } else if window <= most / 2 {
        window * 2
    } else {
        most
    }
}

/// Requests to read the first `extent` bytes of a file of `size` bytes, in reads of `first` bytes
/// each, with a readahead of at most `most` pages.
fn sequential(size: u64, extent: u64, first: u64, most: u64) -> u64 {
    let (all, wanted) = (pages(size), pages(extent));
    if wanted == 0 || all == 0 {
        return 0;
    }
    let asked = pages(first).max(1);
    let mut window = first_window(asked, most);
    let mut have = window.min(all);
    // Where the readahead goes on: at the end of what was asked for, if there is more.
    let mut mark = if window > asked { asked } else { 0 };
    let mut requests = 1;
    while have < all && wanted > mark {
        mark = have;
        window = next_window(window, most);
        have = (have + window).min(all);
        requests += 1;
    }
    requests
}

/// Requests for what a process touches of a file that it has mapped, beyond the first `have` bytes.
/// A fault brings in what lies around it, half a window on each side. How much of a file a program
/// touches is known of none; see docs/pathsearch.md.
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
    use crate::trace::Count;

    /// A tree of names, all of it far away but `/proc`.
    struct Made(BTreeMap<&'static [u8], Node>);

    impl Look for Made {
        fn node(&mut self, path: &[u8]) -> Node {
            self.0.get(path).cloned().unwrap_or(Node::Missing)
        }
        fn interpreter(&mut self, path: &[u8]) -> Option<Vec<u8>> {
            (path == b"/usr/bin/tool").then(|| b"/lib64/ld.so".to_vec())
        }
        fn far(&mut self, dir: &[u8]) -> bool {
            !dir.starts_with(b"/proc")
        }
    }

    fn made() -> Made {
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
        Made(BTreeMap::from(nodes))
    }

    fn touch(path: &str, hits: u64, misses: u64) -> Touch {
        Touch {
            count: Count { hits, misses },
            follow: true,
            ..Touch::new(path.as_bytes().into())
        }
    }

    fn asked(touched: &[Touch], manner: &Manner) -> Vec<(&'static str, u64, u64)> {
        let predicted = predict(touched, &mut made(), manner);
        let rows = predicted
            .cold
            .iter()
            .map(|(request, cold)| (request.name(), cold, predicted.warm.of(request)));
        rows.filter(|(_, cold, warm)| cold + warm > 0).collect()
    }

    #[test]
    fn components_count_once_and_what_is_behind_a_missing_one_not_at_all() {
        let touched = [
            touch("/usr/bin/a", 0, 3),
            touch("/usr/bin/b", 0, 1),
            touch("/none/x/y", 0, 1),
            touch("/none/z", 0, 1),
        ];
        assert_eq!(asked(&touched, &Manner::default()), [("LOOKUP", 5, 0)]);
        // Each time anew: a three times, b once, and the missing directory for both names in it;
        // usr and bin are there.
        let forgets = Manner {
            keeps_misses: false,
            ..Manner::default()
        };
        assert_eq!(asked(&touched, &forgets), [("LOOKUP", 8, 6)]);
    }

    #[test]
    fn links_are_followed_and_loops_end() {
        assert_eq!(
            asked(&[touch("/bin/tool", 1, 0)], &Manner::default()),
            [("LOOKUP", 4, 0), ("READLINK", 1, 0)]
        );
        assert_eq!(
            asked(&[touch("/loop", 0, 1)], &Manner::default()),
            [("LOOKUP", 1, 0), ("READLINK", 1, 0)]
        );
        let itself = Touch {
            follow: false,
            nofollow: true,
            readlinks: 1,
            ..touch("/bin", 1, 0)
        };
        assert_eq!(
            asked(&[itself], &Manner::default()),
            [("LOOKUP", 1, 0), ("READLINK", 1, 0)]
        );
        assert_eq!(
            asked(&[touch("/usr/../proc/self/x", 0, 1)], &Manner::default()),
            [("LOOKUP", 2, 0)]
        );
    }

    #[test]
    fn a_program_brings_its_interpreter_and_both_are_opened_each_time() {
        let run = Touch {
            execs: 2,
            ..touch("/usr/bin/tool", 2, 0)
        };
        let expected = [
            ("LOOKUP", 6, 0),
            ("READLINK", 1, 0),
            ("OPEN", 4, 4),
            ("READ", 2 + 3, 0),
            ("RELEASE", 4, 4),
        ];
        let found = asked(&[run], &Manner::default());
        assert_eq!((&found[..3], found[4]), (&expected[..3], expected[4]));
        assert!((4..=5).contains(&found[3].1), "{found:?}");
    }

    #[test]
    fn what_is_read_comes_by_windows_and_once() {
        let read = Touch {
            opens: 3,
            reads: 9,
            first: 4096,
            extent: 300_000,
            ..touch("/data", 3, 0)
        };
        // 4, 8, 16, 32 pages, and the rest of 74.
        assert_eq!(
            asked(std::slice::from_ref(&read), &Manner::default()),
            [
                ("LOOKUP", 1, 0),
                ("OPEN", 3, 3),
                ("READ", 5, 0),
                ("RELEASE", 3, 3)
            ]
        );
        let forgets = Manner {
            keeps_pages: false,
            opens: false,
            ..Manner::default()
        };
        assert_eq!(
            asked(&[read], &forgets),
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
    fn what_searches_look_up_alone() {
        let names = [
            b"/usr/bin/x".to_vec(),
            b"/usr/bin/y".to_vec(),
            b"/gone/x".to_vec(),
            b"/gone/y".to_vec(),
        ];
        assert_eq!(lookups_of(&names, &mut made(), &Manner::default()), 2);
    }
}
