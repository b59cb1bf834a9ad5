//! A group of processes with a memory limit of its own: what is done in it takes no memory from
//! anybody else.

use std::ffi::CString;

use gate::create::{mkdirat, unlinkat_directory};
use gate::file::{read_kernel, write};
use gate::fs::{At, CWD, Open, Want, getdents64, openat, statx};
use gate::long::{c_string, open_long};
use gate::{Errno, Result};
use ondisk::{Mount, split_options};

/// What the groups that are made here are called.
const PREFIX: &[u8] = b"fathom-probe-";

/// Which of the two interfaces there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// A hierarchy for memory alone.
    V1,
    /// One for all.
    V2,
}

impl Version {
    /// The files that have limits: beyond the second of the new interface, what is not needed is
    /// thrown out as well.
    fn limit_files(self) -> &'static [&'static [u8]] {
        match self {
            Version::V1 => &[b"memory.limit_in_bytes"],
            Version::V2 => &[b"memory.max", b"memory.high"],
        }
    }

    /// The one that a group of our own gets.
    fn limit_file(self) -> &'static [u8] {
        match self {
            Version::V1 => b"memory.limit_in_bytes",
            Version::V2 => b"memory.max",
        }
    }
}

/// The group that this process is in, as far as memory is concerned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Which interface it has.
    pub version: Version,
    /// Its directory.
    dir: Vec<u8>,
    /// The directory of the topmost group that is to be seen.
    top: Vec<u8>,
}

impl Group {
    /// The group of this process; `None` where there is none to be seen.
    pub fn own(table: &[Mount]) -> Option<Group> {
        let said = read_kernel(c"/proc/self/cgroup").ok()?;
        [Version::V1, Version::V2].into_iter().find_map(|version| {
            let group = locate(version, table, &said)?;
            // A hierarchy may be there without memory being counted in it.
            let counts = group.read(&group.dir, version.limit_file()).is_some()
                || version == Version::V2
                    && group
                        .read(&group.dir, b"cgroup.controllers")
                        .is_some_and(|c| has_word(&c, b"memory"));
            counts.then_some(group)
        })
    }

    fn read(&self, dir: &[u8], file: &[u8]) -> Option<Vec<u8>> {
        read_kernel(&c_string(&[dir, b"/", file].concat()).ok()?).ok()
    }

    /// The least limit of this group and of those that it is in, in bytes, and the file that says
    /// so; `None` for none.
    pub fn limit(&self) -> Option<(u64, String)> {
        let files = self.upwards().flat_map(|dir| {
            self.version
                .limit_files()
                .iter()
                .map(move |name| (dir, *name))
        });
        let limits = files.filter_map(|(dir, name)| {
            let bytes = limit(&self.read(dir, name)?)?;
            Some((
                bytes,
                String::from_utf8_lossy(&[dir, b"/", name].concat()).into_owned(),
            ))
        });
        limits.min_by_key(|(bytes, _)| *bytes)
    }

    /// Bytes of page cache that count in this group, whatever file they are of; `None` where it
    /// does not say.
    pub fn page_cache(&self) -> Option<u64> {
        let name = match self.version {
            Version::V1 => "cache ",
            Version::V2 => "file ",
        };
        let stat = String::from_utf8(self.read(&self.dir, b"memory.stat")?).ok()?;
        stat.lines()
            .find_map(|line| line.strip_prefix(name))?
            .parse()
            .ok()
    }

    /// The directory of this group, and of those that it is in, as far as they are to be seen.
    fn upwards(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::successors(Some(&self.dir[..]), |dir| {
            let above = dir
                .iter()
                .rposition(|b| *b == b'/')
                .filter(|_| dir.len() > self.top.len())?;
            dir.get(..above)
        })
    }

    /// The file that has the kernel forget what this group has in memory, as far as it can, and
    /// what to write into it. The topmost group of all has none.
    pub fn forgets(&self) -> (Vec<u8>, &'static [u8]) {
        let (file, value): (&[u8], &[u8]) = match self.version {
            Version::V1 => (b"memory.force_empty", b"0"),
            Version::V2 => (b"memory.reclaim", b"1T"),
        };
        ([&self.dir, &b"/"[..], file].concat(), value)
    }

    /// Makes a group with a limit of its own: in this one, or where that may not be, higher up. It
    /// goes when it is dropped; processes in it must have ended.
    ///
    /// # Errors
    /// That of the last try: `EACCES`, `EPERM` or `EROFS` where groups may not be made.
    pub fn make(&self, limit: u64) -> Result<Own> {
        let mut last = Errno::EACCES;
        for dir in self.upwards() {
            match self.make_in(dir, limit) {
                Ok(own) => return Ok(own),
                Err(e) => last = if last == Errno::EACCES { e } else { last },
            }
        }
        Err(last)
    }

    fn make_in(&self, dir: &[u8], limit: u64) -> Result<Own> {
        let parent = open_long(dir, Open::DIRECTORY)?;
        // What killed runs have left. A group goes only when nobody is in it.
        let mut buffer = vec![0; 16 << 10];
        while let Ok(n @ 1..) = getdents64(&parent, &mut buffer) {
            for entry in
                ondisk::dirent::entries(&buffer[..n]).filter(|entry| is_left(entry.name.to_bytes()))
            {
                let _ = unlinkat_directory(&parent, entry.name);
            }
        }
        let name = [PREFIX, format!("{:x}", std::process::id()).as_bytes()].concat();
        mkdirat(&parent, &c_string(&name)?, 0o755)?;
        let own = Own {
            version: self.version,
            dir: [dir, b"/", &name].concat(),
        };
        own.set(self.version.limit_file(), limit.to_string().as_bytes())?;
        Ok(own)
    }
}

/// Whether a group is one of ours that was left: its maker is no more. One that is there may not
/// have entered it yet.
fn is_left(name: &[u8]) -> bool {
    let maker = name
        .strip_prefix(PREFIX)
        .and_then(|pid| u32::from_str_radix(str::from_utf8(pid).ok()?, 16).ok());
    let is_there = |pid: u32| {
        let path = c_string(format!("/proc/{pid}").as_bytes());
        path.is_ok_and(|path| statx(CWD, &path, At::empty(), Want::TYPE).is_ok())
    };
    maker.is_some_and(|pid| !is_there(pid))
}

/// A group that was made, and goes when this is dropped.
#[derive(Debug)]
pub struct Own {
    version: Version,
    dir: Vec<u8>,
}

impl Own {
    fn set(&self, file: &[u8], value: &[u8]) -> Result<()> {
        let file = openat(
            CWD,
            &c_string(&[&self.dir, &b"/"[..], file].concat())?,
            Open::WRONLY,
        )?;
        write(&file, value).map(drop)
    }

    /// Has the calling process enter it.
    pub fn enter(&self) -> Result<()> {
        self.set(b"cgroup.procs", b"0")
    }

    /// Has the kernel forget, as far as it can, what this group has in memory: data, inodes, names.
    ///
    /// # Errors
    /// `EAGAIN` when not all that was asked for could be forgotten; `ENOENT` where there is no such
    /// thing (before Linux 5.19).
    pub fn forget(&self) -> Result<()> {
        match self.version {
            Version::V1 => self.set(b"memory.force_empty", b"0"),
            Version::V2 => match self.set(b"memory.reclaim", b"1G") {
                Err(Errno::EAGAIN) => Ok(()), // there was less than that
                other => other,
            },
        }
    }

    /// The file that has its limit.
    pub fn limit_file(&self) -> String {
        String::from_utf8_lossy(&[&self.dir, &b"/"[..], self.version.limit_file()].concat())
            .into_owned()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        const TRIES: u64 = 50;
        let split = self.dir.iter().rposition(|b| *b == b'/').unwrap_or(0);
        let (parent, name) = (&self.dir[..split], &self.dir[split + 1..]);
        let Ok(parent) = open_long(parent, Open::DIRECTORY) else {
            return;
        };
        let Ok(name) = CString::new(name) else { return };
        for attempt in 0..TRIES {
            // A process that has just ended may be in it for a moment longer.
            if unlinkat_directory(&parent, &name) != Err(Errno::EBUSY) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(attempt));
        }
    }
}

/// A limit as the kernel prints it; `None` for none. The old interface prints nearly 2^63 for that.
fn limit(text: &[u8]) -> Option<u64> {
    const NONE: u64 = 1 << 60;
    std::str::from_utf8(text.trim_ascii())
        .ok()?
        .parse()
        .ok()
        .filter(|bytes| *bytes < NONE)
}

fn has_word(text: &[u8], word: &[u8]) -> bool {
    text.split(|b| matches!(b, b' ' | b'\n' | b','))
        .any(|w| w == word)
}

/// Where the group's directory is: what /proc/self/cgroup says, seen from where the hierarchy is
/// mounted.
fn locate(version: Version, table: &[Mount], said: &[u8]) -> Option<Group> {
    let path = said.split(|b| *b == b'\n').find_map(|line| {
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
        let root = mount
            .content
            .fsroot
            .strip_suffix(b"/")
            .unwrap_or(&mount.content.fsroot);
        // What is not below the mounted part is out of sight, as is what the kernel can only say
        // with `..`.
        let below = path
            .strip_prefix(root)
            .filter(|below| below.is_empty() || below.starts_with(b"/"))?;
        if below.split(|b| *b == b'/').any(|part| part == b"..") {
            return None;
        }
        let dir = [&top, below.strip_suffix(b"/").unwrap_or(below)].concat();
        Some(Group { version, dir, top })
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
        };
        Mount {
            target: Some(target.into()),
            content: Arc::new(content),
            ..Mount::default()
        }
    }

    #[test]
    fn the_directory_of_a_group() {
        let table = [
            mount("cgroup", "rw,cpu", "/", "/sys/fs/cgroup/cpu"),
            mount("cgroup", "rw,memory", "/", "/sys/fs/cgroup/memory"),
            mount("cgroup2", "rw", "/", "/sys/fs/cgroup/unified"),
        ];
        let dir = |version, said: &str| {
            locate(version, &table, said.as_bytes()).map(|g| String::from_utf8(g.dir).unwrap())
        };
        let said = "9:cpu,cpuacct:/\n4:memory:/a/b\n0::/user.slice\n";
        assert_eq!(dir(Version::V1, said).unwrap(), "/sys/fs/cgroup/memory/a/b");
        assert_eq!(
            dir(Version::V2, said).unwrap(),
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
    fn in_a_container_only_a_part_is_mounted() {
        let table = [mount("cgroup2", "rw", "/docker/1", "/sys/fs/cgroup")];
        let dir = |said: &str| {
            locate(Version::V2, &table, said.as_bytes()).map(|g| String::from_utf8(g.dir).unwrap())
        };
        assert_eq!(dir("0::/docker/1/job\n").unwrap(), "/sys/fs/cgroup/job");
        assert_eq!(dir("0::/docker/12\n"), None);
    }

    #[test]
    fn the_least_limit_on_the_way_up_counts() {
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
            let mut writer = gate::file::Writer::create(&path).unwrap();
            writer.write_all(text.as_bytes()).unwrap();
            writer.publish().unwrap();
            path
        };
        let group = Group {
            version: Version::V2,
            dir: dir.clone(),
            top: top.clone(),
        };
        assert_eq!(group.limit(), None);
        let limit_is = |bytes: u64, file: &[u8]| {
            group.limit() == Some((bytes, String::from_utf8_lossy(file).into_owned()))
        };
        let mut files = vec![
            write(&dir, "memory.max", "max\n"),
            write(&top, "memory.max", "1073741824\n"),
        ];
        files.push(write(&top, "memory.high", "536870912\n"));
        assert!(limit_is(512 << 20, &files[2]), "{:?}", group.limit());
        write(&dir, "memory.max", "67108864\n");
        assert!(limit_is(64 << 20, &files[0]), "{:?}", group.limit());
        files
            .iter()
            .for_each(|file| gate::file::unlinkat(CWD, &name(file)).unwrap());
        [&dir, &top]
            .iter()
            .for_each(|dir| unlinkat_directory(CWD, &name(dir)).unwrap());
    }

    #[test]
    fn a_group_is_left_when_its_maker_is_no_more() {
        let group = |pid: u32| [PREFIX, format!("{pid:x}").as_bytes()].concat();
        assert!(!is_left(&group(std::process::id())) && is_left(&group(u32::MAX)));
        assert!(
            !is_left(b"fathom-probe-") && !is_left(b"fathom-probe-x") && !is_left(b"user.slice")
        );
    }

    #[test]
    fn limits() {
        assert_eq!(limit(b"67108864\n"), Some(64 << 20));
        assert_eq!(
            (limit(b"max\n"), limit(b"9223372036854771712\n"), limit(b"")),
            (None, None, None)
        );
    }
}
