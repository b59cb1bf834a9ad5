//! Memory cgroups: that of this process, and temporary ones with a limit, whose processes take no
//! memory from others.

use gate::create::{mkdirat, unlinkat_directory};
use gate::file::{read_kernel, read_kernel_in, write};
use gate::fs::{AtFlags, CWD, Open, StatxMask, openat, statx};
use gate::long::{c_string, open_long};
use gate::{Errno, Result};
use ondisk::{Mount, split_options};

use crate::dir::list;

/// The prefix of the names of temporary cgroups.
const PREFIX: &[u8] = b"fathom-probe-";

/// Version of the cgroup interface: version 1 has a hierarchy for the memory controller alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    V1,
    V2,
}

impl Version {
    /// The control files with memory limits; the limit of a temporary cgroup is written to the
    /// first file. memory.high is a soft limit, but the kernel also reclaims pages above it.
    fn limit_files(self) -> &'static [&'static [u8]] {
        match self {
            Version::V1 => &[b"memory.limit_in_bytes"],
            Version::V2 => &[b"memory.max", b"memory.high"],
        }
    }

    fn limit_file(self) -> &'static [u8] {
        self.limit_files()[0]
    }

    /// The control file that reclaims a cgroup's memory, and the text to write to the file.
    fn reclaim_file(self) -> (&'static [u8], &'static [u8]) {
        match self {
            Version::V1 => (b"memory.force_empty", b"0"),
            Version::V2 => (b"memory.reclaim", b"1T"),
        }
    }
}

/// The memory cgroup of this process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cgroup {
    version: Version,
    dir: Vec<u8>,
    /// The directory of the topmost visible cgroup.
    top: Vec<u8>,
}

/// Bytes charged to a cgroup and its descendants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct ChargedBytes {
    pub(crate) all: u64,
    /// The bytes of the page cache.
    pub(crate) files: u64,
}

impl Cgroup {
    /// The cgroup of this process; `None` where none is visible.
    pub fn current(table: &[Mount]) -> Option<Cgroup> {
        let text = read_kernel(c"/proc/self/cgroup").ok()?;
        [Version::V1, Version::V2].into_iter().find_map(|version| {
            let cgroup = locate(version, table, &text)?;
            // A hierarchy may lack the memory controller, or enable it only in some cgroups: memory
            // is charged to the nearest ancestor that has it.
            let counts_memory = |dir: &&[u8]| {
                let controllers = || cgroup.read(dir, b"cgroup.controllers");
                cgroup.read(dir, version.limit_file()).is_some()
                    || controllers().is_some_and(|all| has_word(&all, b"memory"))
            };
            let dir = cgroup.upwards().find(counts_memory)?.to_vec();
            Some(Cgroup { dir, ..cgroup })
        })
    }

    fn read(&self, dir: &[u8], file: &[u8]) -> Option<Vec<u8>> {
        read_kernel_in(dir, file).ok()
    }

    /// The smallest limit of this cgroup and its ancestors in bytes, and the file of that limit;
    /// `None` if unlimited.
    pub(crate) fn limit(&self) -> Option<(u64, String)> {
        let names = self.version.limit_files();
        let files_in = |dir| names.iter().map(move |name| (dir, *name));
        let files = self.upwards().flat_map(files_in);
        let limits = files.filter_map(|(dir, name)| {
            let bytes = parse_limit(&self.read(dir, name)?)?;
            let file = [dir, b"/", name].concat();
            Some((bytes, String::from_utf8_lossy(&file).into_owned()))
        });
        limits.min_by_key(|(bytes, _)| *bytes)
    }

    /// The bytes charged to the cgroup of a limit, given by the file of [`Cgroup::limit`]; `None`
    /// if unknown. Other cgroups below that one share the limit.
    pub(crate) fn charged(&self, limit_file: &str) -> Option<ChargedBytes> {
        let (used, cache): (&[u8], _) = match self.version {
            Version::V1 => (b"memory.usage_in_bytes", "total_cache "),
            Version::V2 => (b"memory.current", "file "),
        };
        let (dir, _) = limit_file.rsplit_once('/')?;
        let read = |file| String::from_utf8(self.read(dir.as_bytes(), file)?).ok();
        let stat = read(b"memory.stat")?;
        let files = stat.lines().find_map(|line| line.strip_prefix(cache))?;
        Some(ChargedBytes {
            all: read(used)?.trim().parse().ok()?,
            files: files.parse().ok()?,
        })
    }

    /// The directories of this cgroup and of its visible ancestors.
    fn upwards(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::successors(Some(&self.dir[..]), |dir| {
            let above = dir.iter().rposition(|b| *b == b'/')?;
            dir.get(..above).filter(|_| dir.len() > self.top.len())
        })
    }

    /// The control file that reclaims this cgroup's memory, and the text to write to the file. The
    /// root cgroup has no such file.
    pub fn reclaim_file(&self) -> (Vec<u8>, &'static [u8]) {
        let (file, value) = self.version.reclaim_file();
        ([&self.dir, &b"/"[..], file].concat(), value)
    }

    /// Creates a cgroup with a limit, in this one or, where that is not allowed, in an ancestor.
    /// Dropping the result removes the cgroup; its processes must have ended.
    pub(crate) fn create_child(&self, limit: u64) -> Result<TemporaryCgroup> {
        let mut last = Errno::EACCES;
        for dir in self.upwards() {
            match self.create_in(dir, limit) {
                Ok(own) => return Ok(own),
                Err(e) => last = if last == Errno::EACCES { e } else { last },
            }
        }
        Err(last)
    }

    fn create_in(&self, dir: &[u8], limit: u64) -> Result<TemporaryCgroup> {
        let parent = open_long(dir, Open::DIRECTORY)?;
        // Remove cgroups that killed runs have left. A cgroup with processes cannot be removed.
        for name in list(&parent).iter().filter(|name| is_left(name.to_bytes())) {
            let _ = unlinkat_directory(&parent, name);
        }
        let name = [PREFIX, format!("{:x}", std::process::id()).as_bytes()].concat();
        mkdirat(&parent, &c_string(&name)?, 0o755)?;
        let own = TemporaryCgroup {
            version: self.version,
            dir: [dir, b"/", &name].concat(),
        };
        own.set(self.version.limit_file(), limit.to_string().as_bytes())?;
        Ok(own)
    }
}

/// Whether a killed run left this cgroup: no process has the PID in its name. An existing process
/// may not have entered its cgroup yet.
fn is_left(name: &[u8]) -> bool {
    let creator = name.strip_prefix(PREFIX);
    let creator = creator.and_then(|pid| u32::from_str_radix(str::from_utf8(pid).ok()?, 16).ok());
    let exists = |pid: u32| {
        let path = c_string(format!("/proc/{pid}").as_bytes());
        path.is_ok_and(|path| statx(CWD, &path, AtFlags::empty(), StatxMask::TYPE).is_ok())
    };
    creator.is_some_and(|pid| !exists(pid))
}

/// A temporary cgroup, which is removed on drop.
#[derive(Debug)]
pub(crate) struct TemporaryCgroup {
    version: Version,
    dir: Vec<u8>,
}

impl TemporaryCgroup {
    fn set(&self, file: &[u8], value: &[u8]) -> Result<()> {
        let path = c_string(&[&self.dir, &b"/"[..], file].concat())?;
        write(&openat(CWD, &path, Open::WRONLY)?, value).map(drop)
    }

    /// Moves the calling process into this cgroup.
    pub(crate) fn enter(&self) -> Result<()> {
        self.set(b"cgroup.procs", b"0")
    }

    /// Reclaims the memory of this cgroup as far as possible: page cache, inodes, dentries.
    pub(crate) fn reclaim(&self) -> Result<()> {
        let (file, value) = self.version.reclaim_file();
        match (self.version, self.set(file, value)) {
            (Version::V2, Err(Errno::EAGAIN)) => Ok(()), // the kernel reclaimed less than requested
            (_, done) => done,
        }
    }

    pub(crate) fn limit_file(&self) -> String {
        let path = [&self.dir, &b"/"[..], self.version.limit_file()].concat();
        String::from_utf8_lossy(&path).into_owned()
    }
}

impl Drop for TemporaryCgroup {
    fn drop(&mut self) {
        const TRIES: u64 = 50;
        let split = self.dir.iter().rposition(|b| *b == b'/').unwrap_or(0);
        let (parent, name) = (&self.dir[..split], &self.dir[split + 1..]);
        let (Ok(parent), Ok(name)) = (open_long(parent, Open::DIRECTORY), c_string(name)) else {
            return;
        };
        for attempt in 0..TRIES {
            // A process that has just ended may still be in the cgroup.
            if unlinkat_directory(&parent, &name) != Err(Errno::EBUSY) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(attempt));
        }
    }
}

/// Parses a limit as the kernel prints it; `None` for no limit, which version 1 prints as nearly
/// 2^63.
fn parse_limit(text: &[u8]) -> Option<u64> {
    const NONE: u64 = 1 << 60;
    let bytes = std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()?;
    Some(bytes).filter(|bytes| *bytes < NONE)
}

fn has_word(text: &[u8], word: &[u8]) -> bool {
    let mut words = text.split(|b| matches!(b, b' ' | b'\n' | b','));
    words.any(|w| w == word)
}

/// The directory of the cgroup in /proc/self/cgroup, below the mount point of its hierarchy.
fn locate(version: Version, table: &[Mount], proc_cgroup: &[u8]) -> Option<Cgroup> {
    let path = proc_cgroup.split(|b| *b == b'\n').find_map(|line| {
        let mut fields = line.splitn(3, |b| *b == b':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let right = match version {
            Version::V1 => has_word(controllers, b"memory"),
            Version::V2 => number == b"0" && controllers.is_empty(),
        };
        right.then_some(path)
    })?;
    let right = |mount: &&Mount| match version {
        Version::V1 => {
            mount.content.fstype == b"cgroup"
                && split_options(&mount.content.options).any(|o| o == b"memory")
        }
        Version::V2 => mount.content.fstype == b"cgroup2",
    };
    table.iter().filter(right).find_map(|mount| {
        let top = mount.target.clone()?;
        let root = &mount.content.fsroot;
        let root = root.strip_suffix(b"/").unwrap_or(root);
        // A cgroup outside of the mounted subtree is not visible; its path contains `..`.
        let below = path.strip_prefix(root)?;
        let is_outside = below.split(|b| *b == b'/').any(|part| part == b"..");
        if is_outside || !(below.is_empty() || below.starts_with(b"/")) {
            return None;
        }
        let dir = [&top, below.strip_suffix(b"/").unwrap_or(below)].concat();
        Some(Cgroup { version, dir, top })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn mount(fstype: &str, options: &str, fsroot: &str, target: &str) -> Mount {
        let content = ondisk::Content {
            fsroot: fsroot.into(),
            fstype: fstype.into(),
            source: None,
            options: options.into(),
            ..ondisk::Content::default()
        };
        Mount {
            target: Some(target.into()),
            content: Arc::new(content),
            ..Mount::default()
        }
    }

    #[test]
    fn the_directory_of_a_cgroup_is_found() {
        let table = [
            mount("cgroup", "rw,cpu", "/", "/sys/fs/cgroup/cpu"),
            mount("cgroup", "rw,memory", "/", "/sys/fs/cgroup/memory"),
            mount("cgroup2", "rw", "/", "/sys/fs/cgroup/unified"),
        ];
        let dir = |version, text: &str| {
            locate(version, &table, text.as_bytes()).map(|g| String::from_utf8(g.dir).unwrap())
        };
        let text = "9:cpu,cpuacct:/\n4:memory:/a/b\n0::/user.slice\n";
        assert_eq!(dir(Version::V1, text).unwrap(), "/sys/fs/cgroup/memory/a/b");
        assert_eq!(
            dir(Version::V2, text).unwrap(),
            "/sys/fs/cgroup/unified/user.slice"
        );
        assert_eq!(
            dir(Version::V2, "0::/\n").unwrap(),
            "/sys/fs/cgroup/unified"
        );
        assert_eq!(dir(Version::V2, "0::/../x\n"), None);
        assert_eq!(dir(Version::V1, "9:cpu:/\n"), None);
    }

    #[test]
    fn in_a_container_the_directory_is_below_the_mounted_part() {
        let table = [mount("cgroup2", "rw", "/docker/1", "/sys/fs/cgroup")];
        let dir = |text: &str| {
            locate(Version::V2, &table, text.as_bytes()).map(|g| String::from_utf8(g.dir).unwrap())
        };
        assert_eq!(dir("0::/docker/1/job\n").unwrap(), "/sys/fs/cgroup/job");
        assert_eq!(dir("0::/docker/12\n"), None);
    }

    #[test]
    fn the_smallest_limit_of_the_ancestors_counts() {
        use std::io::Write;
        use std::os::unix::ffi::OsStrExt;
        let temporary = std::env::temp_dir();
        let top = [
            temporary.as_os_str().as_bytes(),
            format!("/fathom-cgroup-{}", std::process::id()).as_bytes(),
        ]
        .concat();
        let dir = [&top[..], b"/a"].concat();
        let name = |path: &[u8]| c_string(path).unwrap();
        mkdirat(CWD, &name(&top), 0o700).unwrap();
        mkdirat(CWD, &name(&dir), 0o700).unwrap();
        let write = |dir: &[u8], file: &str, text: &str| {
            let path = [dir, b"/", file.as_bytes()].concat();
            let mut writer =
                gate::file::Writer::create(&path, gate::file::Permissions::Public).unwrap();
            writer.write_all(text.as_bytes()).unwrap();
            writer.publish().unwrap();
            path
        };
        let cgroup = Cgroup {
            version: Version::V2,
            dir: dir.clone(),
            top: top.clone(),
        };
        assert_eq!(cgroup.limit(), None);
        let limit_is = |bytes: u64, file: &[u8]| {
            cgroup.limit() == Some((bytes, String::from_utf8_lossy(file).into_owned()))
        };
        let mut files = vec![
            write(&dir, "memory.max", "max\n"),
            write(&top, "memory.max", "1073741824\n"),
        ];
        files.push(write(&top, "memory.high", "536870912\n"));
        assert!(limit_is(512 << 20, &files[2]), "{:?}", cgroup.limit());
        write(&dir, "memory.max", "67108864\n");
        assert!(limit_is(64 << 20, &files[0]), "{:?}", cgroup.limit());
        // The charged bytes are those of the cgroup that has the limit.
        files.push(write(&top, "memory.current", "5000\n"));
        files.push(write(
            &top,
            "memory.stat",
            "anon 1000\nfile 3000\nfile_mapped 1\n",
        ));
        let charged = |dir: &[u8]| {
            let file = [dir, b"/memory.max"].concat();
            cgroup.charged(&String::from_utf8_lossy(&file))
        };
        let expected = ChargedBytes {
            all: 5000,
            files: 3000,
        };
        assert_eq!((charged(&top), charged(&dir)), (Some(expected), None));
        files
            .iter()
            .for_each(|file| gate::file::unlinkat(CWD, &name(file)).unwrap());
        [&dir, &top]
            .iter()
            .for_each(|dir| unlinkat_directory(CWD, &name(dir)).unwrap());
    }

    #[test]
    fn a_cgroup_is_left_when_its_creator_does_not_exist() {
        let name = |pid: u32| [PREFIX, format!("{pid:x}").as_bytes()].concat();
        assert!(!is_left(&name(std::process::id())) && is_left(&name(u32::MAX)));
        assert!(
            !is_left(b"fathom-probe-") && !is_left(b"fathom-probe-x") && !is_left(b"user.slice")
        );
    }

    #[test]
    fn limits_are_parsed() {
        assert_eq!(parse_limit(b"67108864\n"), Some(64 << 20));
        assert_eq!(
            (
                parse_limit(b"max\n"),
                parse_limit(b"9223372036854771712\n"),
                parse_limit(b"")
            ),
            (None, None, None)
        );
    }
}
