//! The requests of a client of a network file system, and what they cost.

/// Seconds of a round trip if nothing else is known: a server in the same building.
pub const ASSUMED_RTT: f64 = 0.0005;

/// A request to the server, by its FUSE name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Looking up a component of a name that is not in the dentry cache.
    Lookup,
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
    /// Closing a descriptor, with a reply that close(2) waits for.
    Flush,
    /// Opening a directory.
    Opendir,
    /// Reading a piece of a directory.
    Readdir,
    /// Closing a file; nothing waits for the reply.
    Release,
}

impl Request {
    /// All requests.
    pub const ALL: [Request; 10] = {
        use Request::*;
        [
            Lookup, Readlink, Open, Create, Read, Getattr, Flush, Opendir, Readdir, Release,
        ]
    };

    /// Its name in FUSE.
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
        self.iter()
            .filter(|(request, _)| request.is_waited_for())
            .map(|(_, n)| n)
            .sum()
    }

    /// The number of all requests.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Each kind with its number.
    pub fn iter(&self) -> impl Iterator<Item = (Request, u64)> {
        Request::ALL.into_iter().zip(self.counts)
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
        if !request.is_waited_for() {
            return 0.0;
        }
        let bytes = match request {
            Request::Read => requests.bytes as f64 * self.byte,
            _ => 0.0,
        };
        requests.get(request) as f64 * self.get(request) + bytes
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
    /// It fetches the attributes again after a read, because the access time has changed.
    pub stats_after_read: bool,
    /// Opening a file is a request.
    pub opens: bool,
    /// Closing a file is a request that the process waits for.
    pub flushes: bool,
    /// Reading what is not cached is a request.
    pub reads: bool,
    /// Opening and reading a directory are requests.
    pub lists: bool,
    /// Bytes that one read request brings at most.
    pub window: u64,
}

impl Default for ClientBehavior {
    /// NFS: everything is cached, and each open(2) asks the server whether it is still valid.
    fn default() -> ClientBehavior {
        ClientBehavior {
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
