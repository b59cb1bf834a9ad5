//! Tests of archives from untrusted sources.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, chown};

use rustix::fs::{CWD, FileType, Mode, XattrFlags, lgetxattr, lsetxattr, makedev, mknodat};

use crate::support::build::{chmod, dir, file};
use crate::support::disks::EXT4;
use crate::support::disks::mounted;
use crate::support::namespace::in_namespace;
use crate::support::need::Need;
use crate::support::run::args;
use crate::support::{fathom, require, run};

/// By default, dangerous metadata is restored, too: set-user-ID bits, devices, capabilities.
/// Options refuse them.
#[test]
fn nothing_of_an_archive_need_be_trusted() {
    if !require(&[Need::Root, Need::Loop, Need::Program("setfacl")]) {
        return;
    }
    in_namespace(|ground| {
        let at = dir(ground.join("disk"));
        assert!(mounted(EXT4[0], &at));
        let tree = dir(at.join("tree"));
        chown(&tree, Some(4242), Some(4243)).unwrap();
        let program = file(tree.join("program"), 10);
        chown(&program, Some(4242), Some(4243)).unwrap();
        chmod(&program, 0o6755);
        let none = XattrFlags::empty();
        lsetxattr(&program, "user.note", b"x", none).unwrap();
        // cap_setuid=ep
        let capabilities = [&[1, 0, 0, 2, 0x80][..], &[0; 15]].concat();
        let ours = file(tree.join("ours"), 10);
        lsetxattr(&ours, "security.capability", &capabilities, none).unwrap();
        let open = file(tree.join("open"), 10);
        chmod(&open, 0o666);
        let set = std::process::Command::new("setfacl")
            .args(["-m", "u:4244:rw"])
            .arg(&open)
            .status();
        assert!(set.unwrap().success());
        let mode = Mode::from_raw_mode(0o666);
        mknodat(
            CWD,
            tree.join("disk"),
            FileType::BlockDevice,
            mode,
            makedev(8, 0),
        )
        .unwrap();
        fs::hard_link(tree.join("disk"), tree.join("same disk")).unwrap();
        mknodat(CWD, tree.join("fifo"), FileType::Fifo, mode, 0).unwrap();
        let archive = at.join("a.tar");
        run(&mut fathom(args!["dump", "-q", "-o", archive, tree])).exits(0);

        let has =
            |path: &std::path::Path, name: &str| lgetxattr(path, name, &mut [0_u8; 64][..]).is_ok();
        let all = [
            "--no-same-owner",
            "--no-same-permissions",
            "--no-devices",
            "--no-xattrs",
        ];
        let sets: [&[&str]; 6] = [&[], &all[..1], &all[1..2], &all[2..3], &all[3..], &all];
        for (nth, flags) in sets.into_iter().enumerate() {
            let to = dir(at.join(format!("to-{nth}")));
            let restored = to.join(tree.strip_prefix("/").unwrap());
            let restore = |more: &[&str]| {
                let words = args!["restore", archive, "-C", to];
                run(fathom(words).args(flags).args(more))
            };
            let foreseen = restore(&["-n", "--json"]).exits(0).json();
            let steps = foreseen["result"]["steps"].as_array().unwrap();
            let foresees_device = steps.iter().any(|step| step["what"] == "block device");
            let told = restore(&[]).exits(0).stderr;
            let keeps = |flag: &str| !flags.contains(&flag);
            let look = |name: &str| restored.join(name).symlink_metadata();
            let program = look("program").unwrap();
            let owners = keeps(all[0]);
            assert_eq!(program.uid() == 4242, owners, "{flags:?}");
            assert_eq!(look(".").unwrap().uid() == 4242, owners, "{flags:?}");
            let set_id = owners && keeps(all[1]);
            assert_eq!(
                program.mode() & 0o7777,
                if set_id { 0o6755 } else { 0o755 },
                "{flags:?}"
            );
            let mode = look("open").unwrap().mode() & 0o777;
            assert!(keeps(all[1]) || mode & 0o022 == 0, "{flags:?}: {mode:o}");
            let device = look("disk").is_ok_and(|it| it.file_type().is_block_device());
            assert_eq!(device, keeps(all[2]), "{flags:?}");
            assert_eq!(foresees_device, device, "{flags:?}");
            assert_eq!(told.contains("devices are skipped"), !device, "{told}");
            assert!(look("fifo").unwrap().file_type().is_fifo());
            let [program, ours, open] = ["program", "ours", "open"].map(|it| restored.join(it));
            assert_eq!(has(&program, "user.note"), keeps(all[3]), "{flags:?}");
            let list = keeps(all[1]) && keeps(all[3]);
            let capability = list && owners;
            assert_eq!(has(&ours, "security.capability"), capability, "{flags:?}");
            assert_eq!(has(&open, "system.posix_acl_access"), list, "{flags:?}");
            assert_eq!(
                fs::read(&program).unwrap(),
                fs::read(tree.join("program")).unwrap()
            );
        }
    });
}
