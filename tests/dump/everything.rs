//! Creates a tree with every kind of file, name and attribute.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chownat, lsetxattr,
    makedev, mknodat, utimensat,
};

use crate::support::build::{chmod, dir, file, name, odd_names};

use crate::support::tool::tool;

/// Creates every kind of file in the empty directory `top`; `is_large` adds a sparse file of more
/// than 8 GiB.
pub(crate) fn everything(top: &Path, is_large: bool) {
    names(&dir(top.join("names")));
    kinds(&dir(top.join("kinds")));
    sizes(&dir(top.join("sizes")), is_large);
    attributes(&dir(top.join("attributes")));
    links(&dir(top.join("links")));
    owners_and_times(&dir(top.join("owners")));
    dir(top.join("empty"));
}

/// Unusual names, names of 255 bytes, and paths that do not fit into a ustar header.
fn names(top: &Path) {
    for odd in odd_names() {
        fs::write(top.join(name(&odd)), &odd).unwrap();
        let below = dir(dir(top.join("directories")).join(name(&odd)));
        fs::write(below.join("x"), b"x").unwrap();
    }
    let mut at = top.to_owned();
    for n in 0..10 {
        at = dir(at.join(format!("{n}{}", "d".repeat(240))));
        fs::write(at.join("f"), format!("{n}")).unwrap();
    }
    for len in [1, 99, 100, 101, 155, 156, 254, 255] {
        fs::write(top.join("l".repeat(len)), b"").unwrap();
        symlink("t".repeat(len), top.join("s".repeat(len))).unwrap();
    }
    symlink("far/".repeat(200), top.join("far")).unwrap();
    symlink(name(b"new\nline \xff"), top.join("strange")).unwrap();
}

fn kinds(top: &Path) {
    let make = |what: &str, kind, device| {
        mknodat(CWD, top.join(what), kind, Mode::from(0o640), device).unwrap()
    };
    make("fifo", FileType::Fifo, 0);
    make("null", FileType::CharacterDevice, makedev(1, 3));
    make("odd", FileType::CharacterDevice, makedev(300, 5000));
    make("disk", FileType::BlockDevice, makedev(7, 255));
    UnixListener::bind(top.join("socket")).unwrap();
    symlink("fifo", top.join("symlink")).unwrap();
    symlink("nowhere at all", top.join("dangling")).unwrap();
}

fn sizes(top: &Path, is_large: bool) {
    let bytes: Vec<u8> = (0..3_000_001_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    for size in [
        0,
        1,
        511,
        512,
        513,
        10_240,
        (1 << 20) - 1,
        1 << 20,
        (1 << 20) + 1,
        3_000_001,
    ] {
        fs::write(top.join(size.to_string()), &bytes[..size]).unwrap();
    }
    let sparse = |what: &str, size: u64, at: &[(u64, usize)]| {
        let file = File::create(top.join(what)).unwrap();
        file.set_len(size).unwrap();
        at.iter()
            .for_each(|&(at, len)| file.write_all_at(&bytes[..len], at).unwrap());
    };
    sparse("hole only", 1 << 20, &[]);
    sparse(
        "holes at both ends",
        5 << 20,
        &[(1 << 20, 4096), (3 << 20, 65_536)],
    );
    sparse("hole at the end, odd", (1 << 20) + 77, &[(0, 4096)]);
    sparse(
        "hole at the beginning",
        1 << 20,
        &[((1 << 20) - 4096, 4096)],
    );
    sparse(
        "much data and a hole",
        8 << 20,
        &[(0, 1 << 21), (6 << 20, 1 << 21)],
    );
    sparse(
        "many holes",
        4 << 20,
        &(0..32).map(|n| (n * (128 << 10), 4096)).collect::<Vec<_>>(),
    );
    if is_large {
        sparse(
            "over 8 GiB",
            9 << 30,
            &[(0, 10), (1 << 32, 100), ((9 << 30) - 5000, 5000)],
        );
    }
}

fn attributes(top: &Path) {
    let set = |what: &str, attribute: &str, value: &[u8]| {
        lsetxattr(top.join(what), attribute, value, XattrFlags::empty()).unwrap();
    };
    file(top.join("user"), 10);
    set("user", "user.empty", b"");
    set("user", "user.text", b"some text");
    set("user", "user.binary", b"\0\xff\n=\0");
    set("user", "user.long", &[b'x'; 900]);
    set("user", "trusted.hidden", b"t");
    file(top.join("large"), 2 << 20);
    set("large", "user.of", b"a large file");
    file(top.join("nothing"), 0);
    set("nothing", "user.of", b"an empty file");
    dir(top.join("directory"));
    set("directory", "user.of", b"a directory");
    file(top.join("program"), 100);
    tool(
        Command::new("setcap")
            .arg("cap_net_raw,cap_net_bind_service+ep")
            .arg(top.join("program")),
    );
    file(top.join("acl"), 5);
    tool(
        Command::new("setfacl")
            .args(["-m", "u:1000:rw,g:2000:r,u:12345678:x"])
            .arg(top.join("acl")),
    );
    tool(
        Command::new("setfacl")
            .args(["-m", "u:7:rwx,d:u:1000:rwx,d:g:5:r-x,d:o::-"])
            .arg(top.join("directory")),
    );
    file(top.join("directory/heir"), 5);
    dir(top.join("directory/heirs"));
}

fn links(top: &Path) {
    let (a, b) = (dir(top.join("a")), dir(top.join("b")));
    let first = file(b.join("first"), 5000);
    for to in [a.join("z"), b.join("second"), b.join("x".repeat(200))] {
        fs::hard_link(&first, to).unwrap();
    }
    symlink("somewhere", a.join("link")).unwrap();
    fs::hard_link(a.join("link"), b.join("link")).unwrap();
    mknodat(CWD, a.join("fifo"), FileType::Fifo, Mode::from(0o600), 0).unwrap();
    fs::hard_link(a.join("fifo"), b.join("fifo")).unwrap();
}

fn owners_and_times(top: &Path) {
    for (n, id) in [0, 1, 1000, (1 << 21) - 1, 1 << 21, 1 << 31, u32::MAX - 1]
        .into_iter()
        .enumerate()
    {
        let at = file(top.join(id.to_string()), n);
        let directory = dir(top.join(format!("d{id}")));
        for at in [at, directory] {
            chownat(
                CWD,
                at,
                Some(Uid::from_raw(id)),
                Some(Gid::from_raw(id)),
                AtFlags::empty(),
            )
            .unwrap();
        }
    }
    for (n, mode) in [0, 0o1, 0o444, 0o4755, 0o2755, 0o1777, 0o7777]
        .into_iter()
        .enumerate()
    {
        use std::os::unix::fs::PermissionsExt;
        let at = file(top.join(format!("mode {mode:o}")), n);
        chmod(at, mode);
        fs::set_permissions(
            dir(top.join(format!("dir {mode:o}"))),
            fs::Permissions::from_mode(mode),
        )
        .unwrap();
    }
    let times = [
        (0, 0),
        (-1, 999_999_999),
        (-1_000_000_000, 5),
        (1 << 31, 123_456_789),
        (1, 100_000_000),
        (8_000_000_000, 1),
    ];
    for (tv_sec, tv_nsec) in times {
        let time = Timespec { tv_sec, tv_nsec };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        for at in [
            file(top.join(format!("time {tv_sec}")), 3),
            dir(top.join(format!("directory {tv_sec}"))),
        ] {
            utimensat(CWD, at, &times, AtFlags::empty()).unwrap();
        }
        let link = top.join(format!("symlink {tv_sec}"));
        symlink("x", &link).unwrap();
        utimensat(CWD, link, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
}
