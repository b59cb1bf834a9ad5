//! File systems with many mkfs options, on loop devices, in the mount namespace of a test.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{self, MountFlags};

use super::tool::tool;

/// A loop device that detaches itself when it is closed, or when its file system is unmounted; and
/// the sequence number of its attachment.
#[derive(Debug)]
pub(crate) struct Loop(pub(crate) PathBuf, Option<String>);

impl Drop for Loop {
    fn drop(&mut self) {
        // A device that was detached already may have the image of another test.
        if self.1 == diskseq(&self.0) {
            let mut detach = Command::new("losetup");
            let _ = detach.arg("--detach").arg(&self.0).status();
        }
    }
}

/// The sequence number of a block device's last attachment, since Linux 5.15.
fn diskseq(device: &Path) -> Option<String> {
    let name = device.file_name()?;
    fs::read_to_string(Path::new("/sys/block").join(name).join("diskseq")).ok()
}

/// A loop device for an image.
pub(crate) fn attach(image: &Path) -> Loop {
    let printed = tool(
        Command::new("losetup")
            .args(["--find", "--show"])
            .arg(image),
    );
    let device = PathBuf::from(OsStr::from_bytes(printed.trim_ascii_end()));
    let attachment = diskseq(&device);
    Loop(device, attachment)
}

/// A file system to create: its name in messages, its type, and the options of mkfs and mount.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Make {
    pub(crate) name: &'static str,
    pub(crate) fstype: &'static str,
    pub(crate) mkfs: &'static str,
    pub(crate) options: &'static str,
}

const fn make(name: &'static str, fstype: &'static str, mkfs: &'static str) -> Make {
    Make {
        name,
        fstype,
        mkfs,
        options: "",
    }
}

/// The features of mke2fs.
pub(crate) const EXT4: [Make; 32] = [
    make("default", "ext4", ""),
    make("1K blocks", "ext4", "-b 1024"),
    make("2K blocks", "ext4", "-b 2048"),
    make("ext2", "ext2", ""),
    make("ext2 with 1K blocks", "ext2", "-b 1024"),
    make("ext3", "ext3", ""),
    make("ext3 with 1K blocks", "ext3", "-b 1024"),
    make("^metadata_csum", "ext4", "-O ^metadata_csum"),
    make("uninit_bg", "ext4", "-O ^metadata_csum,uninit_bg"),
    make("^64bit", "ext4", "-O ^64bit"),
    make("meta_bg", "ext4", "-O meta_bg,^resize_inode -b 1024"),
    make("^flex_bg", "ext4", "-O ^flex_bg"),
    make("many small groups", "ext4", "-b 1024 -g 1024 -O ^flex_bg"),
    make("packed metadata", "ext4", "-G 64 -E packed_meta_blocks=1"),
    make("bigalloc", "ext4", "-O bigalloc -C 16384"),
    make("inline_data", "ext4", "-O inline_data"),
    make(
        "inline_data in large inodes",
        "ext4",
        "-O inline_data -I 1024 -b 1024",
    ),
    make("^has_journal", "ext4", "-O ^has_journal"),
    make("casefold", "ext4", "-O casefold"),
    make("ea_inode", "ext4", "-O ea_inode"),
    make("inodes of 128 bytes", "ext4", "-I 128"),
    make("inodes of 1024 bytes", "ext4", "-I 1024"),
    make("large_dir", "ext4", "-O large_dir -b 1024"),
    make("fast_commit", "ext4", "-O fast_commit"),
    make("orphan_file", "ext4", "-O orphan_file"),
    make("mmp", "ext4", "-O mmp"),
    make("sparse_super2", "ext4", "-O sparse_super2,^resize_inode"),
    make("quota and project", "ext4", "-O quota,project"),
    make(
        "verity and stable_inodes",
        "ext4",
        "-O verity,stable_inodes",
    ),
    make("^extent", "ext4", "-O ^extent,^64bit"),
    make(
        "^dir_index and ^filetype",
        "ext4",
        "-O ^dir_index,^filetype",
    ),
    make(
        "much at once",
        "ext4",
        "-O bigalloc,inline_data,meta_bg,^resize_inode,orphan_file,ea_inode -b 1024 -C 8192 -I 512",
    ),
];

/// The features of mkfs.xfs.
pub(crate) const XFS: [Make; 6] = [
    make("default", "xfs", ""),
    make("1K blocks", "xfs", "-b size=1024"),
    make(
        "^reflink, ^rmapbt, ^bigtime",
        "xfs",
        "-m reflink=0,rmapbt=0,bigtime=0,inobtcount=0",
    ),
    make("inodes of 2048 bytes", "xfs", "-i size=2048"),
    make("12 allocation groups", "xfs", "-d agcount=12"),
    make(
        "sparse=0 and 64K directory blocks",
        "xfs",
        "-i sparse=0 -n size=65536",
    ),
];

/// The features of mkfs.btrfs.
pub(crate) const BTRFS: [Make; 4] = [
    make("default", "btrfs", ""),
    Make {
        options: "compress-force=zstd",
        ..make("compressed", "btrfs", "")
    },
    make("nodes of 64K", "btrfs", "-n 65536"),
    make(
        "mixed groups, ^no-holes",
        "btrfs",
        "--mixed -n 4096 -O ^no-holes",
    ),
];

/// XFS with reverse mappings: the default of recent versions of mkfs.xfs.
pub(crate) const XFS_WITH_OWNERS: Make = Make {
    name: "owners",
    mkfs: "-m reflink=1,rmapbt=1",
    ..XFS[0]
};

/// XFS without reverse mappings, on which files can share blocks.
pub(crate) const XFS_WITHOUT_OWNERS: Make = Make {
    name: "reflink",
    mkfs: "-m reflink=1,rmapbt=0",
    ..XFS[0]
};

/// Creates an image of `size` MiB with a file system.
pub(crate) fn image(make: Make, size: u64, at: &Path) {
    fs::File::create(at).unwrap().set_len(size << 20).unwrap();
    let mut mkfs = Command::new(format!("mkfs.{}", make.fstype));
    tool(mkfs.arg("-q").args(make.mkfs.split_whitespace()).arg(at));
}

/// Creates a file system in a sparse file next to `at`, and mounts it there with `noatime`, so that
/// reading changes nothing. Returns false, with a message on stderr that the test harness does not
/// capture, if the kernel does not support a feature.
pub(crate) fn mounted(make: Make, at: &Path) -> bool {
    let size = if make.fstype.starts_with("ext") {
        128
    } else {
        1200
    };
    mounted_with(make, size, at, MountFlags::NOATIME)
}

/// Like [`mounted`], with `size` MiB, and mounted with these flags.
pub(crate) fn mounted_with(make: Make, size: u64, at: &Path, flags: MountFlags) -> bool {
    fs::create_dir_all(at).unwrap();
    let file = at.with_extension("image");
    image(make, size, &file);
    mount_image(make, &file, at, flags)
}

/// Mounts an image on a different loop device than before, so that the files have a different
/// device number.
pub(crate) fn mount_elsewhere(make: Make, file: &Path, at: &Path) {
    let spare = tempfile::NamedTempFile::new().unwrap();
    spare.as_file().set_len(1 << 20).unwrap();
    let _in_its_place = [attach(spare.path()), attach(spare.path())];
    assert!(mount_image(make, file, at, MountFlags::NOATIME));
}

/// Sets the times of a file back by years, as if the clock had been set back. `image` is an
/// unmounted ext4 image.
pub(crate) fn set_back(image: &Path, name: &str) {
    for field in ["ctime", "mtime"] {
        set_inode_field(image, name, field, "20010203040506");
    }
}

/// Sets a field of an inode in an unmounted ext4 image.
pub(crate) fn set_inode_field(image: &Path, name: &str, field: &str, value: &str) {
    let request = format!("set_inode_field {name} {field} {value}");
    tool(
        Command::new("debugfs")
            .args(["-w", "-R", &request])
            .arg(image),
    );
}

/// Mounts an image created by [`image`].
pub(crate) fn mount_image(make: Make, file: &Path, at: &Path, flags: MountFlags) -> bool {
    let device = attach(file);
    let options = std::ffi::CString::new(make.options).unwrap();
    match mount::mount(&device.0, at, make.fstype, flags, options.as_c_str()) {
        Ok(()) => true,
        Err(refused) => {
            // A kernel may be built without these features. All other images must mount.
            assert!(
                ["casefold", "quota and project"].contains(&make.name),
                "{make:?}: {refused}"
            );
            let _ = writeln!(
                std::io::stderr(),
                "\n*** LEFT OUT {} with {}: {refused}",
                make.fstype,
                make.name
            );
            false
        }
    }
}

/// Mounts an overlay on `at` with its layers in `parts`, which must not be on an overlay.
pub(crate) fn overlay(parts: &Path, at: &Path) -> PathBuf {
    for layer in ["lower", "upper", "work"] {
        fs::create_dir_all(parts.join(layer)).unwrap();
    }
    fs::create_dir_all(at).unwrap();
    let parts = parts.display();
    let options = format!("lowerdir={parts}/lower,upperdir={parts}/upper,workdir={parts}/work");
    let options = std::ffi::CString::new(options).unwrap();
    mount::mount(
        "an overlay",
        at,
        "overlay",
        MountFlags::NOATIME,
        options.as_c_str(),
    )
    .unwrap();
    at.to_owned()
}

/// Creates a btrfs subvolume, or a snapshot of `of`.
pub(crate) fn subvolume(at: &Path, of: Option<&Path>) -> PathBuf {
    let mut btrfs = Command::new("btrfs");
    match of {
        Some(of) => tool(btrfs.args(["subvolume", "snapshot"]).arg(of).arg(at)),
        None => tool(btrfs.args(["subvolume", "create"]).arg(at)),
    };
    at.to_owned()
}

/// Adds an encryption key to the file system of `top`, and encrypts the empty directory `at` with
/// it (<linux/fscrypt.h>). Returns the argument for [`lock`].
pub(crate) fn encrypt(top: &Path, at: &Path) -> [u8; 80] {
    const FS_IOC_ADD_ENCRYPTION_KEY: libc::c_ulong = 0xc050_6617;
    const FS_IOC_SET_ENCRYPTION_POLICY: libc::c_ulong = 0x800c_6613;
    const IDENTIFIER: u32 = 2;
    let mut key = vec![0_u8; 80 + 64]; // `struct fscrypt_add_key_arg` and the key itself
    key[0..4].copy_from_slice(&IDENTIFIER.to_ne_bytes());
    key[40..44].copy_from_slice(&64_u32.to_ne_bytes());
    key[80..].fill(7);
    on(top, FS_IOC_ADD_ENCRYPTION_KEY, &mut key);
    let mut policy = [0_u8; 24]; // `struct fscrypt_policy_v2`
    policy[..4].copy_from_slice(&[2, 1, 4, 3]); // version, AES-256-XTS, AES-256-CTS, names padded to 32
    policy[8..24].copy_from_slice(&key[8..24]);
    on(at, FS_IOC_SET_ENCRYPTION_POLICY, &mut policy);
    key[..80].try_into().unwrap()
}

/// Removes the key: afterwards only encrypted names are visible.
pub(crate) fn lock(top: &Path, key: &[u8; 80]) {
    const FS_IOC_REMOVE_ENCRYPTION_KEY: libc::c_ulong = 0xc040_6618;
    let mut spec = [0_u8; 64]; // `struct fscrypt_remove_key_arg`
    spec[..24].copy_from_slice(&key[..24]);
    on(top, FS_IOC_REMOVE_ENCRYPTION_KEY, &mut spec);
}

fn on(path: &Path, request: libc::c_ulong, argument: &mut [u8]) {
    let file = fs::File::open(path).unwrap();
    // SAFETY: the argument has the size of the request's structure, including its trailing array.
    let done = unsafe {
        libc::ioctl(
            std::os::fd::AsRawFd::as_raw_fd(&file),
            request,
            argument.as_mut_ptr(),
        )
    };
    assert_eq!(done, 0, "{request:#x}: {}", std::io::Error::last_os_error());
}
