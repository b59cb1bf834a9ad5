//! The requests of a client of a network file system, and their cost.

use std::time::Duration;

/// Assumed seconds of a round trip: a server in the same building.
pub const ASSUMED_RTT: f64 = 0.0005;

base::named! {
    /// A request to the server. The name is that of FUSE, or of NFS 4 if FUSE has no such request.
    Request {
        /// Looking up a component of a name that is not in the dentry cache.
        Lookup "LOOKUP",
        /// Checking the permission to search a directory, on its first use.
        Access "ACCESS",
        /// Reading the target of a symbolic link.
        Readlink "READLINK",
        /// Opening a file (OPEN).
        Open "OPEN",
        /// Creating a file (CREATE).
        Create "CREATE",
        /// Reading a piece of a file.
        Read "READ",
        /// Fetching attributes whose cached copy has expired.
        Getattr "GETATTR",
        /// Closing a file with a reply that the last close(2) waits for (NFS 4).
        Close "CLOSE",
        /// Closing a descriptor with a reply that close(2) waits for.
        Flush "FLUSH",
        /// Opening a directory: GETATTR on NFS.
        Opendir "OPENDIR",
        /// Reading a piece of a directory.
        Readdir "READDIR",
        /// Closing a file without waiting for the reply.
        Release "RELEASE",
    }
}

impl Request {
    /// Whether the process waits for the reply.
    pub fn is_waited_for(self) -> bool {
        self != Request::Release
    }
}

/// The number of requests of each kind.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Requests {
    counts: [u64; Request::ALL.len()],
    /// The total number of bytes that [`Request::Read`] returns.
    pub bytes: u64,
    /// [`Request::Read`]s that are sent in parallel with a read that the process waits for.
    pub parallel_reads: u64,
}

impl Requests {
    /// The number of requests of one kind.
    pub fn get(&self, request: Request) -> u64 {
        self.counts[request as usize]
    }

    /// Adds `n` requests of one kind.
    pub fn add(&mut self, request: Request, n: u64) {
        self.counts[request as usize] += n;
    }

    /// The number of requests that the process waits for: round trips.
    pub fn waited(&self) -> u64 {
        Request::ALL
            .into_iter()
            .map(|request| self.waited_of(request))
            .sum()
    }

    /// The number of requests of one kind that the process waits for.
    pub fn waited_of(&self, request: Request) -> u64 {
        match request {
            _ if !request.is_waited_for() => 0,
            Request::Read => self.get(request).saturating_sub(self.parallel_reads),
            _ => self.get(request),
        }
    }

    /// The number of all requests.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// How long the process waits for a request of each kind, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    each: [f64; Request::ALL.len()],
    /// The additional time for each byte of [`Request::Read`].
    pub byte: f64,
}

impl Prices {
    /// The same price, one round trip, for every request.
    pub fn uniform(rtt: f64) -> Prices {
        Prices {
            each: [rtt; Request::ALL.len()],
            byte: 0.0,
        }
    }

    /// The price of a request; for a read, without its bytes.
    pub fn get(&self, request: Request) -> f64 {
        self.each[request as usize]
    }

    pub(crate) fn set(&mut self, request: Request, seconds: f64) {
        self.each[request as usize] = seconds;
    }

    /// How long the process waits for all requests of one kind, in sequence.
    pub fn seconds_for(&self, request: Request, requests: &Requests) -> f64 {
        let bytes = match request {
            Request::Read => requests.bytes as f64 * self.byte,
            _ => 0.0,
        };
        requests.waited_of(request) as f64 * self.get(request) + bytes
    }

    /// How long the process waits for all requests, in sequence.
    pub fn seconds(&self, requests: &Requests) -> f64 {
        Request::ALL
            .into_iter()
            .map(|request| self.seconds_for(request, requests))
            .sum()
    }
}

/// The caching behavior of a network file system's client, and which calls are requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientBehavior {
    /// The client caches the files that names refer to.
    pub keeps_names: bool,
    /// The client caches that a name does not exist (negative dentries).
    pub keeps_misses: bool,
    /// The client caches the targets of symbolic links.
    pub keeps_links: bool,
    /// The client keeps cached pages when an unchanged file is opened again.
    pub keeps_pages: bool,
    /// The client caches the entries of a directory and their files.
    pub keeps_lists: bool,
    /// The client keeps the attributes of a file without delegation for this time: `acregmin` of
    /// nfs(5). Attributes of directories are kept longer.
    pub keeps_attributes: Option<Duration>,
    /// The client checks the search permission of each directory once.
    pub checks_access: bool,
    /// The client fetches the attributes again after a read, because the access time has changed.
    pub stats_after_read: bool,
    /// Opening a file is a request.
    pub opens: bool,
    /// Opening a file also looks up the last component of its path (atomic open).
    pub atomic_open: bool,
    /// The server grants delegations: opening and closing a file again is local.
    pub delegations: bool,
    /// Closing a file is a request that the process waits for.
    pub closes: bool,
    /// Closing a descriptor is a request that the process waits for.
    pub flushes: bool,
    /// Reading uncached data is a request.
    pub reads: bool,
    /// Opening and reading a directory are requests.
    pub lists: bool,
    /// Maximum bytes that the kernel reads ahead.
    pub window: u64,
    /// Maximum bytes of one read request; a larger readahead takes several.
    pub read_size: u64,
}

impl ClientBehavior {
    /// Linux's client and server of NFS 4.2.
    pub(crate) const NFS_4: ClientBehavior = ClientBehavior {
        keeps_lists: true,
        keeps_attributes: Some(Duration::from_secs(3)),
        checks_access: true,
        stats_after_read: true,
        atomic_open: true,
        delegations: true,
        closes: true,
        ..ClientBehavior::OTHER
    };

    /// A client that caches everything, and revalidates at each open(2).
    pub(crate) const OTHER: ClientBehavior = ClientBehavior {
        keeps_names: true,
        keeps_misses: true,
        keeps_links: true,
        keeps_pages: true,
        keeps_lists: false,
        keeps_attributes: None,
        checks_access: false,
        stats_after_read: false,
        opens: true,
        atomic_open: false,
        delegations: false,
        closes: false,
        flushes: false,
        reads: true,
        lists: true,
        window: 128 << 10,
        read_size: 1 << 20,
    };

    /// The default behavior for a file system type.
    pub(crate) fn of_type(fstype: &[u8]) -> ClientBehavior {
        match fstype {
            b"nfs4" => ClientBehavior::NFS_4,
            _ => ClientBehavior::OTHER,
        }
    }
}

impl Default for ClientBehavior {
    /// The behavior of NFS 4.
    fn default() -> ClientBehavior {
        ClientBehavior::NFS_4
    }
}
