//! The requests of a client of a network file system, and what they cost.

use std::time::Duration;

/// Seconds of a round trip if nothing else is known: a server in the same building.
pub const ASSUMED_RTT: f64 = 0.0005;

/// A request to the server, by its FUSE name, or that of NFS 4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Looking up a component of a name that is not in the dentry cache.
    Lookup,
    /// Asking whether the user may search a directory: the first time it is used.
    Access,
    /// Reading the target of a symbolic link.
    Readlink,
    /// Opening a file.
    Open,
    /// Creating a file.
    Create,
    /// Reading a piece of a file.
    Read,
    /// Fetching attributes that are not cached any more.
    Getattr,
    /// Closing a file, with a reply that the last close(2) waits for: on NFS 4.
    Close,
    /// Closing a descriptor, with a reply that close(2) waits for.
    Flush,
    /// Opening a directory: GETATTR on NFS.
    Opendir,
    /// Reading a piece of a directory.
    Readdir,
    /// Closing a file; nothing waits for the reply.
    Release,
}

impl Request {
    /// All requests.
    pub const ALL: [Request; 12] = {
        use Request::*;
        [
            Lookup, Access, Readlink, Open, Create, Read, Getattr, Close, Flush, Opendir, Readdir,
            Release,
        ]
    };

    /// Its name in FUSE.
    pub fn name(self) -> &'static str {
        match self {
            Request::Lookup => "LOOKUP",
            Request::Access => "ACCESS",
            Request::Readlink => "READLINK",
            Request::Open => "OPEN",
            Request::Create => "CREATE",
            Request::Read => "READ",
            Request::Getattr => "GETATTR",
            Request::Close => "CLOSE",
            Request::Flush => "FLUSH",
            Request::Opendir => "OPENDIR",
            Request::Readdir => "READDIR",
            Request::Release => "RELEASE",
        }
    }

    /// Whether the process waits for the reply.
    pub fn is_waited_for(self) -> bool {
        self != Request::Release
    }
}

/// The number of requests of each kind.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Requests {
    counts: [u64; Request::ALL.len()],
    /// Bytes that [`Request::Read`] brings, all together.
    pub bytes: u64,
    /// [`Request::Read`]s that are sent together with another one, which is waited for.
    pub parallel_reads: u64,
}

impl Requests {
    /// The number of one kind.
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

    /// The same of one kind.
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
    /// The additional time for each byte that [`Request::Read`] brings.
    pub byte: f64,
}

impl Prices {
    /// One round trip for each request, whatever it is.
    pub fn uniform(rtt: f64) -> Prices {
        Prices {
            each: [rtt; Request::ALL.len()],
            byte: 0.0,
        }
    }

    /// The price of a request; that of a read without its bytes.
    pub fn get(&self, request: Request) -> f64 {
        self.each[request as usize]
    }

    pub(crate) fn set(&mut self, request: Request, seconds: f64) {
        self.each[request as usize] = seconds;
    }

    /// How long the process waits for the requests of one kind, one after the other.
    pub fn seconds_for(&self, request: Request, requests: &Requests) -> f64 {
        let bytes = match request {
            Request::Read => requests.bytes as f64 * self.byte,
            _ => 0.0,
        };
        requests.waited_of(request) as f64 * self.get(request) + bytes
    }

    /// How long the process waits for all requests, one after the other.
    pub fn seconds(&self, requests: &Requests) -> f64 {
        Request::ALL
            .into_iter()
            .map(|request| self.seconds_for(request, requests))
            .sum()
    }
}

/// What a client of a network file system caches, and which calls make it ask the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientBehavior {
    /// It caches what a name refers to.
    pub keeps_names: bool,
    /// It caches that a name does not exist.
    pub keeps_misses: bool,
    /// It caches the targets of symbolic links.
    pub keeps_links: bool,
    /// It keeps cached pages when an unchanged file is opened again.
    pub keeps_pages: bool,
    /// It caches the entries of a directory, and what their names refer to.
    pub keeps_lists: bool,
    /// It keeps the attributes of a file that it has no delegation for only so long: `acregmin` of
    /// nfs(5). Those of directories are kept longer.
    pub keeps_attributes: Option<Duration>,
    /// It asks once for each directory whether the user may search it.
    pub checks_access: bool,
    /// It fetches the attributes again after a read, because the access time has changed.
    pub stats_after_read: bool,
    /// Opening a file is a request.
    pub opens: bool,
    /// Opening a file also looks up the last component of its name.
    pub atomic_open: bool,
    /// The server grants delegations: opening and closing a file again is local.
    pub delegations: bool,
    /// Closing a file is a request that the process waits for.
    pub closes: bool,
    /// Closing a descriptor is one.
    pub flushes: bool,
    /// Reading what is not cached is a request.
    pub reads: bool,
    /// Opening and reading a directory are requests.
    pub lists: bool,
    /// Bytes that the kernel reads ahead at most.
    pub window: u64,
    /// Bytes that one read request brings at most; a readahead of more takes several.
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

    /// A client that caches everything, and asks the server at each open(2) whether it is still
    /// valid.
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

    /// That of a type of file system, as far as nothing is measured.
    pub(crate) fn of_type(fstype: &[u8]) -> ClientBehavior {
        match fstype {
            b"nfs4" => ClientBehavior::NFS_4,
            _ => ClientBehavior::OTHER,
        }
    }
}

impl Default for ClientBehavior {
    /// NFS 4.
    fn default() -> ClientBehavior {
        ClientBehavior::NFS_4
    }
}
