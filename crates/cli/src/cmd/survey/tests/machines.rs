//! Pages of surveys of three machines, constructed by hand: a laptop; a server with many mounts,
//! one of them hung; and the laptop for an unprivileged user. The pages are opened in a browser,
//! like the pages of real surveys in `tests/page`.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use mounts::Point;
use mounts::check::Verdict;
use ondisk::Content;
use survey::capacity::Capacity;
use survey::{Missing, PrivilegedResult, Section, StepState, StepTaken};
use walk::{Digest, DirectoryCount, EngineKind};

use super::super::show::page::html;
use super::example::{Owned, engine, point_of};
use super::is_sound;
use super::shared::browser;
use super::shared::need::{built, require};
use crate::out::publish;

const GIB: u64 = 1 << 30;

fn mount(target: &str, minor: u32, fstype: &str, source: &str, options: &str) -> Point {
    let content = Content {
        fsroot: b"/".to_vec(),
        fstype: fstype.into(),
        source: Some(source.into()),
        options: options.into(),
        ..Content::default()
    };
    Point {
        content: Some(Arc::new(content)),
        ..point_of(target.as_bytes(), minor, fstype.as_bytes())
    }
}

/// Sets the mounts of a survey, and adds the pseudo file systems that every system has.
fn set_mounts(owned: &mut Owned, mounts: Vec<Point>) {
    let pseudo = [
        ("/proc", "proc", "proc"),
        ("/sys", "sysfs", "sysfs"),
        ("/sys/kernel/security", "securityfs", "securityfs"),
        ("/sys/fs/cgroup", "cgroup2", "cgroup2"),
        ("/sys/fs/pstore", "pstore", "pstore"),
        ("/sys/fs/bpf", "bpf", "bpf"),
        ("/sys/kernel/debug", "debugfs", "debugfs"),
        ("/sys/kernel/tracing", "tracefs", "tracefs"),
        ("/dev", "devtmpfs", "udev"),
        ("/dev/pts", "devpts", "devpts"),
        ("/dev/shm", "tmpfs", "tmpfs"),
        ("/dev/hugepages", "hugetlbfs", "hugetlbfs"),
        ("/dev/mqueue", "mqueue", "mqueue"),
        ("/run", "tmpfs", "tmpfs"),
        ("/run/lock", "tmpfs", "tmpfs"),
        ("/run/user/1000", "tmpfs", "tmpfs"),
    ];
    let pseudo = (500..)
        .zip(pseudo)
        .map(|(minor, (target, fstype, source))| {
            mount(
                target,
                minor,
                fstype,
                source,
                "rw,nosuid,nodev,noexec,relatime",
            )
        });
    *owned.points() = mounts.into_iter().chain(pseudo).collect();
}

/// Sets the size and the used percentage of space and inodes of a mount.
fn fill(owned: &mut Owned, target: &str, size: u64, used: u64, inodes: u64, inodes_used: u64) {
    let points = owned.points().iter();
    let mut points = points.filter(|point| point.target == target.as_bytes());
    let dev = points.next().expect("a mount").dev;
    let capacity = Capacity {
        size,
        used: size / 100 * used,
        available: size / 100 * (100 - used),
        inodes,
        inodes_used: inodes / 100 * inodes_used,
    };
    owned.found.capacities.insert(dev, capacity);
}

/// Sets the directories that a walk counted.
fn set_directories(owned: &mut Owned, directories: &[(&str, u64, u64)]) {
    let count = |&(path, entries, directories): &(&str, u64, u64)| DirectoryCount {
        path: path.into(),
        entries,
        directories,
        allocated: 4096 * entries,
    };
    owned.walking().directories = directories.iter().map(count).collect();
}

const LAPTOP: [(&str, u64, u64); 26] = [
    ("usr/share", 151_204, 18_911),
    ("home/ada", 112_330, 14_874),
    ("usr/lib", 84_117, 8_120),
    ("usr/src", 61_230, 6_033),
    ("var/lib", 38_811, 4_218),
    ("usr/include", 14_022, 1_123),
    ("var/cache", 9_120, 310),
    ("usr/bin", 4_011, 1),
    ("opt/vendor", 5_233, 610),
    ("etc", 1_904, 230),
    ("etc/ssl", 812, 8),
    ("var/log", 604, 31),
    ("usr/sbin", 611, 0),
    ("opt", 12, 3),
    ("usr/local", 1_310, 190),
    ("home", 3, 2),
    ("boot", 340, 9),
    ("root/.cache", 2_204, 260),
    ("root", 31, 6),
    ("var/spool", 92, 20),
    ("srv/www", 3_190, 410),
    ("srv", 2, 1),
    ("usr", 15, 12),
    ("var", 14, 11),
    ("tmp", 77, 20),
    ("", 24, 19),
];

fn step(name: &'static str, section: Section, seconds: f64) -> StepTaken {
    StepTaken {
        name,
        section,
        state: StepState::Done,
        seconds,
        bytes_read: 12 << 20,
        bytes_written: 0,
    }
}

pub(super) fn laptop() -> Owned {
    let mut owned = Owned::new();
    owned.machine.host = Some(b"anvil".to_vec());
    owned.machine.root = true;
    owned.machine.unseen.clear();
    owned.machine.cpus = 8;
    owned.machine.memory = Some(16 * GIB);
    owned.warnings.clear();
    let disk = "/dev/nvme0n1";
    set_mounts(
        &mut owned,
        vec![
            mount("/", 2, "ext4", &format!("{disk}p2"), "rw,relatime"),
            mount("/boot/efi", 1, "vfat", &format!("{disk}p1"), "rw,relatime"),
            mount("/home", 3, "ext4", &format!("{disk}p3"), "rw,relatime"),
            mount("/media/usb", 17, "exfat", "/dev/sda1", "rw,nosuid,nodev"),
            mount("/tmp", 40, "tmpfs", "tmpfs", "rw,nosuid,nodev"),
        ],
    );
    fill(&mut owned, "/", 118 * GIB, 63, 7_864_320, 12);
    fill(&mut owned, "/boot/efi", GIB / 2, 8, 0, 0);
    fill(&mut owned, "/home", 342 * GIB, 92, 22_806_528, 9);
    fill(&mut owned, "/media/usb", 58 * GIB, 31, 0, 0);
    fill(&mut owned, "/tmp", 8 * GIB, 1, 2_000_000, 1);
    set_directories(&mut owned, &LAPTOP);
    let walking = owned.walking();
    walking.part.engine = EngineKind::Ext4;
    walking.engines.left_out.clear();
    walking.engines.engines = vec![
        engine(EngineKind::Ext4, 0.213, 1_840),
        engine(EngineKind::Threads, 0.612, 702_118),
        engine(EngineKind::Stat, 2.310, 710_233),
    ];
    for engine in &mut walking.engines.engines {
        engine.totals.entries = LAPTOP.iter().map(|(_, entries, _)| entries).sum();
    }
    owned.found.steps = vec![
        step("mount table", Section::Mounts, 0.04),
        step("walk with each engine", Section::Walk, 14.2),
        step("gathering a dump", Section::Dump, 1.9),
        step("metering a walk", Section::Account, 4.4),
        step("program starts", Section::Startup, 0.6),
        step("prices of system calls", Section::Gates, 5.1),
        step("experiments on /", Section::Probe, 7.7),
    ];
    owned
}

pub(super) fn server() -> Owned {
    let mut owned = laptop();
    owned.machine.host = Some(b"storage-head-03.example.org".to_vec());
    owned.machine.cpus = 64;
    owned.machine.memory = Some(512 * GIB);
    let mut mounts = vec![
        mount("/", 2, "xfs", "/dev/mapper/vg0-root", "rw,relatime"),
        mount(
            "/boot",
            1,
            "ext4",
            "/dev/sda1",
            "ro,relatime,errors=remount-ro",
        ),
        mount(
            "/srv/archive",
            60,
            "xfs",
            "/dev/mapper/vg1-archive",
            "rw,noatime",
        ),
        mount(
            "/var/lib/containers/storage/overlay",
            61,
            "xfs",
            "/dev/mapper/vg0-containers",
            "rw",
        ),
    ];
    for n in 0..176 {
        let server = format!("filer{:02}.example.org", n % 7);
        let point = mount(
            &format!("/net/projects/project-{n:03}"),
            1000 + n,
            "nfs4",
            &format!("{server}:/export/projects/project-{n:03}"),
            "rw,hard,vers=4.2",
        );
        mounts.push(Point {
            server: Some(server),
            verdict: Some(match n % 7 {
                3 if n < 20 => Verdict::Hung,
                5 if n < 10 => Verdict::Slow,
                _ => Verdict::Ok,
            }),
            ..point
        });
    }
    mounts.push(Point {
        hidden: true,
        ..mount("/srv/archive/2019", 70, "ext4", "/dev/sdq1", "rw")
    });
    set_mounts(&mut owned, mounts);
    fill(&mut owned, "/", 80 * GIB, 41, 41_943_040, 3);
    fill(&mut owned, "/boot", GIB, 37, 65_536, 1);
    fill(
        &mut owned,
        "/srv/archive",
        87_000 * GIB,
        100,
        4_000_000_000,
        71,
    );
    fill(
        &mut owned,
        "/var/lib/containers/storage/overlay",
        900 * GIB,
        55,
        471_859_200,
        96,
    );
    for n in (0..176).filter(|n| n % 7 != 3) {
        let target = format!("/net/projects/project-{n:03}");
        fill(&mut owned, &target, 2_000 * GIB, (n * 37) % 89, 0, 0);
    }
    owned.bound_walk(Some(1_204_000_000), Some(4));
    owned.walking().engines.engines[1].is_steady = Some(false);
    owned.walking().engines.engines[1].totals.digest = Digest::from_halves([0x11; 2]);
    owned.lose(Section::Dump, Missing::NoWalk);
    owned.lose(Section::Account, Missing::NoWalk);
    owned
}

pub(super) fn ordinary_user() -> Owned {
    let mut owned = laptop();
    owned.machine.root = false;
    owned.machine.unseen = vec![
        PrivilegedResult::BulkEngines,
        PrivilegedResult::BpfMeter,
        PrivilegedResult::UnreadableDirectories,
        PrivilegedResult::Experiments(b"/boot/efi".to_vec()),
    ];
    owned.root = b"/home/ada".to_vec();
    owned
        .points()
        .retain(|point| point.target.starts_with(b"/home"));
    set_directories(
        &mut owned,
        &[
            (".cache/mozilla", 20_412, 1_840),
            ("src/linux", 91_220, 5_980),
            ("src/tools", 4_120, 388),
            (".local/share", 6_200, 910),
            ("Documents", 1_212, 88),
            (".config", 803, 210),
            ("", 44, 20),
        ],
    );
    let walking = owned.walking();
    walking.part.engine = EngineKind::Threads;
    walking.engines.engines.remove(0);
    owned.found.file_systems.truncate(1);
    owned
}

#[test]
fn pages_of_three_machines_are_sound() {
    for (name, owned) in [
        ("laptop", laptop()),
        ("server", server()),
        ("user", ordinary_user()),
    ] {
        let page = html(&owned.survey());
        is_sound(&page);
        write(name, &page);
    }
}

/// Writes a page to the target directory, for `tools/screenshot`.
fn write(name: &str, page: &str) {
    let path = built(format!("page-of-{name}.html"));
    publish(path.as_os_str().as_bytes(), page.as_bytes()).unwrap();
}

/// Checks that the page renders in a browser without fault, and that a phone shows `words`.
fn is_readable(name: &str, owned: &Owned, words: &[&str]) {
    if !require(&browser::NEEDS) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let page = place.path().join("page.html");
    publish(
        page.as_os_str().as_bytes(),
        html(&owned.survey()).as_bytes(),
    )
    .unwrap();
    let views = browser::look(&page, name);
    browser::sound(&views);
    let text = browser::text(browser::named(&views, "phone-light"), "text");
    for word in words {
        assert!(text.contains(word), "no {word}: {text}");
    }
}

#[test]
fn the_page_of_a_laptop_is_readable() {
    let words = [
        "1 warning",
        "/home is nearly full",
        "usr/share",
        "16 pseudo file systems",
    ];
    is_readable("laptop", &laptop(), &words);
}

#[test]
fn the_page_of_a_server_is_readable() {
    let words = [
        "2 errors",
        "3 mounts not answering",
        "/srv/archive is full",
        "The tree changed during the comparison",
    ];
    is_readable("server", &server(), &words);
}

#[test]
fn the_page_of_an_ordinary_user_is_readable() {
    is_readable("user", &ordinary_user(), &["Not run as root", "src/linux"]);
}
