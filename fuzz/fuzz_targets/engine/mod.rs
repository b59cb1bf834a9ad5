//! A walk by an engine of what a target has made of its input.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use gate::Fd;
use gate::fs::Open;
use gate::long::open_long;
use walk::{Diagnostics, Dir, DirKey, EngineKind, Entry, Sink, Top, Worker};

/// Checks the names of entries, and counts them.
#[derive(Default)]
struct Names(AtomicU64);

struct Checker<'a>(&'a Names);

impl Sink for Names {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(Checker(self))
    }
}

impl Worker for Checker<'_> {
    fn take(&mut self, _dir: &Dir<'_>, entries: &[Entry<'_>]) {
        for entry in entries {
            assert!(!entry.name.is_empty() && entry.name.len() < 256);
            assert!(!entry.name.iter().any(|byte| b"/\0".contains(byte)));
            assert!(![&b"."[..], b".."].contains(&entry.name));
        }
        self.0.0.fetch_add(entries.len() as u64, Relaxed);
    }
}

/// A directory in memory with some entries, of this process.
pub fn directory() -> PathBuf {
    let top = PathBuf::from(format!("/dev/shm/fathom-fuzz-{}", std::process::id()));
    fs::create_dir_all(top.join("a/b")).unwrap();
    for name in ["a/f", "f", "g"] {
        fs::write(top.join(name), name).unwrap();
    }
    top
}

/// Walks from an inode number on, or from that of the directory. Each entry takes bytes of the input.
pub fn walk_directory(kind: EngineKind, ino: Option<u64>, image: Option<&[u8]>, most: u64) {
    let path = directory();
    let path = path.to_str().unwrap().as_bytes();
    let mut top = Top::new(open(path), path.to_vec(), DirKey::top(0)).unwrap();
    top.meta.ino = ino.unwrap_or(top.meta.ino);
    let image = image.map(|bytes| {
        let path = format!("/dev/shm/fathom-fuzz-{}.image", std::process::id());
        File::create(&path).unwrap().write_all(bytes).unwrap();
        let image = open(path.as_bytes());
        fs::remove_file(path).unwrap();
        image
    });
    let (names, diagnostics) = (Names::default(), Diagnostics::default());
    let _ = walk::crafted::walk(kind, image, &top, &names, &diagnostics);
    assert!(names.0.into_inner() <= most);
}

fn open(path: &[u8]) -> Fd {
    open_long(path, Open::NOFOLLOW).unwrap()
}
