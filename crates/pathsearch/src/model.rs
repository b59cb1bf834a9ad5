//! Predicts the requests that a command's start would make on a network file system, with cold and
//! with warm caches, from the names that it looked up here and its calls on them.
//! docs/pathsearch.md describes the model.

use std::collections::HashSet;

use crate::client::{Client, Purpose};
use crate::request::{ClientBehavior, Requests};
use crate::trace::NameUse;
use crate::tree::{FileTree, Node};

/// The requests of a start.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct StartRequests {
    /// The requests with cold caches.
    pub cold: Requests,
    /// The requests with the caches that the first start has filled.
    pub warm: Requests,
    /// The total size of the files read, in bytes.
    pub bytes: u64,
    /// The files that the start reads.
    pub files: Vec<Vec<u8>>,
    /// The symbolic links on the paths of these files.
    pub links: Vec<Vec<u8>>,
}

/// Remote files that a command has used, as samples for measuring their file system.
pub(crate) struct Samples {
    /// Regular files, the largest first.
    pub(crate) files: Vec<Vec<u8>>,
    /// A symbolic link on the remote file system.
    pub(crate) link: Option<Vec<u8>>,
    /// Directories that the command has listed.
    pub(crate) listed: Vec<Vec<u8>>,
}

/// The requests of a start that uses these names, and of a second start right after it. `seconds`
/// returns the duration of a start with these requests.
pub(crate) fn predict_requests(
    names: &[NameUse],
    tree: &mut dyn FileTree,
    behavior: &ClientBehavior,
    seconds: impl Fn(&Requests) -> f64,
) -> StartRequests {
    let mut client = Client::new(&mut *tree, *behavior);
    let (cold, first) = client.start(names, &seconds);
    let (mut warm, second) = client.start(names, &seconds);
    let bytes = client.bytes;
    let files = client.files.keys().cloned().collect();
    let links = client.links.iter().cloned().collect();
    if let Some(kept) = behavior.keeps_attributes
        && first.seconds > kept.as_secs_f64()
    {
        let mut client = Client::new(tree, *behavior);
        client.start(names, &seconds);
        client.expire(&first, &second, kept);
        warm = client.start(names, &seconds).0;
    }
    StartRequests {
        cold,
        warm,
        bytes,
        files,
        links,
    }
}

/// The largest remote files of a start, a symbolic link, and listed directories.
pub(crate) fn samples(names: &[NameUse], tree: &mut dyn FileTree) -> Samples {
    const FILES: usize = 8;
    const LISTED: usize = 16;
    let mut client = Client::new(tree, ClientBehavior::default());
    client.start(names, |_| 0.0);
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

/// The requests of a start that uses these names, with cold caches: the same as in the result of
/// [`predict_requests`].
pub(crate) fn predict_cold(
    names: &[NameUse],
    tree: &mut dyn FileTree,
    behavior: &ClientBehavior,
) -> Requests {
    Client::new(tree, *behavior).start(names, |_| 0.0).0
}

/// The names that a program looks up when it starts, after the files and symbolic links in `copied`
/// were copied to a local disk.
pub(crate) fn without_copied(
    names: &[NameUse],
    copied: &HashSet<&[u8]>,
    tree: &mut dyn FileTree,
) -> Vec<NameUse> {
    let mut client = Client::new(tree, ClientBehavior::default());
    let mut is_copied = |used: &NameUse| {
        let resolved = client.resolve(&used.path, used.follow, Purpose::Look, 1);
        resolved.is_some_and(|(file, _)| copied.contains(&file[..]))
    };
    let left = names.iter().map(|used| match is_copied(used) {
        true => used.removed(),
        false => used.clone(),
    });
    left.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::kind::Count;
    use crate::request::Request;

    /// A simulated file tree that is remote, except for `/proc`.
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

    /// The requests if the first start takes this many seconds.
    fn requests_after(
        names: &[NameUse],
        behavior: &ClientBehavior,
        seconds: f64,
    ) -> Vec<(&'static str, u64, u64)> {
        let predicted = predict_requests(names, &mut tree(), behavior, |_| seconds);
        let rows = Request::ALL.into_iter().map(|request| {
            let (cold, warm) = (predicted.cold.get(request), predicted.warm.get(request));
            (request.name(), cold, warm)
        });
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
        // The client does not cache failed lookups: `a` fails three times, `b` once, and the
        // missing directory once per name in it. The existing directories usr and bin take one
        // LOOKUP each.
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
        // Readahead of 4, 8, 16 and 32 pages, and the remaining 14 of 74.
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
        // LOOKUP for the directories and the link lib64; the program and its interpreter need none.
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
        // The program examines the file before it reads it. The read changes its attributes, so the
        // second start fetches them again.
        assert_eq!(fetched(read.clone()), (0, 1));
        let examined_later = NameUse {
            stats_after_read: 1,
            ends_with_stat: true,
            ..read
        };
        assert_eq!(fetched(examined_later), (1, 0));
        // Without a delegation, attributes expire after 3 s without use: those of the file and of
        // the link.
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
        // The link is used during the whole start, so only the attributes of the file expire.
        assert_eq!(fetched_after(4.0, "/lib64/none"), 1);
        // The file is used before or after most requests of a first start of 8 s, then in a second
        // start of 0.1 s. The attributes expire only after the early use.
        for (at, fetched) in [(1, 2), (99, 0)] {
            let examined = NameUse {
                first_at: at,
                last_at: at,
                ..used("/lib64/ld.so", 1, 0)
            };
            let read = NameUse {
                opens: 1,
                first: 4096,
                extent: 2 << 20,
                first_at: 50,
                last_at: 50,
                ..used("/usr/lib64/libc.so", 1, 0)
            };
            let mut names = [examined, read];
            names.sort_by_key(|used| used.first_at);
            let seconds = |requests: &Requests| match requests.get(Request::Lookup) {
                0 => 0.1,
                _ => 8.0,
            };
            let found = predict_requests(&names, &mut tree(), &ClientBehavior::NFS_4, seconds);
            assert_eq!(found.warm.get(Request::Getattr), fetched, "{at}");
        }
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
    fn a_removed_name_makes_no_requests_and_does_not_move_a_listing() {
        let listed = NameUse {
            opens: 1,
            listings: 2,
            listed_at: 2,
            ..used("/usr/bin", 1, 0)
        };
        let names = [
            used("/none/x", 0, 1),
            listed,
            used("/usr/bin/tool", 1, 0),
            used("/usr/bin/none", 0, 1),
        ];
        let left: Vec<NameUse> = names
            .iter()
            .enumerate()
            .map(|(at, used)| {
                if at == 0 {
                    used.removed()
                } else {
                    used.clone()
                }
            })
            .collect();
        let lookups = |names: &[NameUse]| {
            let requests = predict_cold(names, &mut tree(), &ClientBehavior::NFS_4);
            requests.get(Request::Lookup)
        };
        // The listing of /usr/bin has the name of the tool, so the tool needs no LOOKUP.
        assert_eq!((lookups(&names), lookups(&left)), (4, 3));
    }

    #[test]
    fn copied_files_leave_the_failed_lookups() {
        let read = NameUse {
            opens: 1,
            reads: 1,
            first: 4096,
            extent: 4096,
            ..used("/bin/tool", 1, 0)
        };
        let names = [used("/none/x", 0, 1), read, used("/usr/bin/none", 0, 1)];
        let copied: HashSet<&[u8]> = [&b"/usr/bin/tool"[..], b"/bin"].into();
        let left = without_copied(&names, &copied, &mut tree());
        let requests = predict_cold(&left, &mut tree(), &ClientBehavior::OTHER);
        // LOOKUP of /none, /usr, bin and none.
        assert_eq!((requests.get(Request::Lookup), requests.total()), (4, 4));
    }
}
