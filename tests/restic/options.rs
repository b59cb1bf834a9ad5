//! Tests of options that restic's backup has, too.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use crate::restic::{
    NEEDS, PASSWORD, check, dump, dump_command, init, restic, restic_command, restored, said, trees,
};
use crate::support::build::{dir, file};
use crate::support::disks::{EXT4, mounted};
use crate::support::run::args;
use crate::support::{Need, in_namespace, require, run};

#[test]
fn a_missing_source_of_several_is_a_warning() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        file(dir(ground.join("tree")).join("file"), 100);
        let words = args!["tree", "none", "--json"];
        let made = run(&mut dump_command(ground, words)).exits(1).json();
        assert_eq!(made["result"]["files_new"], 1, "{made}");
        assert_eq!(made["warnings"][0]["path"], "none", "{made}");
        run(&mut dump_command(ground, args!["none", "neither"])).refused();
        assert_eq!(trees(ground).len(), 1);
        let listed = said(ground, args!["snapshots", "--json"]);
        assert!(!listed.contains("none"), "{listed}");
    });
}

#[test]
fn a_dry_run_tells_what_a_snapshot_would_add_and_writes_nothing() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let tree = dir(ground.join("tree"));
        (0..50).for_each(|nth| drop(file(tree.join(format!("{nth}")), 1000 + nth)));
        let state = dir(ground.join("state"));
        let find = || {
            let mut find = Command::new("find");
            find.args([ground.join("repo"), state.clone()])
                .args(["-printf", "%p %s %C@\n"]);
            run(&mut find).exits(0).stdout
        };
        for words in [
            args!["tree"].to_vec(),
            args!["tree", "--state", "state"].to_vec(),
        ] {
            let before = find();
            let dry = words.iter().cloned().chain(args!["-n", "--json"]);
            let planned = run(&mut dump_command(ground, dry)).exits(0).json()["result"].clone();
            assert_eq!(find(), before);
            let made = dump(ground, words);
            assert!(planned["dry_run"] == true && made["dry_run"] == false);
            assert!(planned["snapshot"].is_null() && made["snapshot"].is_string());
            for field in [
                "tree",
                "files_new",
                "files_unmodified",
                "bytes",
                "bytes_added",
            ] {
                assert_eq!(planned[field], made[field], "{field}");
            }
        }
        let said = run(&mut dump_command(ground, args!["tree", "-n"]))
            .exits(0)
            .stderr;
        assert!(said.contains("would be made"), "{said}");
    });
}

#[test]
fn the_host_of_a_snapshot_can_be_given() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        file(dir(ground.join("tree")).join("file"), 100);
        let mut command = dump_command(ground, args!["tree", "--host", "there"]);
        run(command.env("RESTIC_HOST", "elsewhere")).exits(0);
        let listed = said(ground, args!["snapshots", "--host", "there", "--json"]);
        assert!(listed.contains("\"hostname\":\"there\""), "{listed}");
        // The parent of a snapshot is of the same host.
        let made = dump(ground, args!["tree"]);
        assert!(made["parent"].is_null(), "{made}");
        let made = dump(ground, args!["tree", "--host", "there"]);
        assert!(made["parent"].is_string(), "{made}");
    });
}

/// A sparse file is stored with its data at the right offsets, and the holes are not read.
#[test]
fn holes_are_not_read() {
    if !require(&NEEDS) || !require(&[Need::Loop, Need::Program("mkfs.ext4")]) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let disk = dir(ground.join("disk"));
        assert!(mounted(EXT4[0], &disk));
        let tree = dir(disk.join("tree"));
        let at = |name: &str, places: &[(u64, usize)], len: u64| {
            use std::os::unix::fs::FileExt;
            let file = fs::File::create(tree.join(name)).unwrap();
            for &(offset, size) in places {
                file.write_all_at(&vec![offset as u8 | 1; size], offset)
                    .unwrap();
            }
            file.set_len(len).unwrap();
        };
        const MIB: u64 = 1 << 20;
        at("begins", &[(0, 5000)], 30 * MIB + 17);
        at("ends", &[(40 * MIB - 10, 10)], 40 * MIB);
        at(
            "between",
            &[(3 * MIB + 5, 700_000), (9 * MIB, 1), (20 * MIB, 4096)],
            50 * MIB,
        );
        at("only", &[], 64 * MIB);
        at("small", &[(4096, 10)], 100_000);
        let calls = |words: &[&str]| {
            let words = args!["disk/tree", "--json"]
                .into_iter()
                .chain(words.iter().map(Into::into));
            let made = run(&mut dump_command(ground, words)).exits(0).json();
            crate::support::run::calls(&made["gates"])["pread64"]
        };
        let calls = calls(&[]);
        assert!(calls < 60, "{calls}");
        check(ground);
        let copy = restored(ground, "copy").join("disk/tree");
        for name in ["begins", "ends", "between", "only", "small"] {
            let same = run(Command::new("cmp").args([tree.join(name), copy.join(name)]));
            assert_eq!(same.code(), 0, "{name}");
        }
        // restic cuts the file into the same blobs.
        let theirs = said(ground, args!["backup", "disk/tree", "--force", "--json"]);
        let last: serde_json::Value = serde_json::from_str(theirs.lines().last().unwrap()).unwrap();
        assert_eq!(last["data_added"], 0, "{last}");
        let found = trees(ground);
        assert_eq!(found[0], found[1]);
    });
}

/// With the option, a file system whose device number changes has the same trees.
#[test]
fn device_numbers_of_hard_links_only_can_be_recorded() {
    if !require(&NEEDS) || !require(&[Need::Loop, Need::Program("mkfs.ext4")]) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let disk = dir(ground.join("disk"));
        assert!(mounted(EXT4[0], &disk));
        let tree = dir(disk.join("tree"));
        (0..5).for_each(|nth| drop(file(tree.join(format!("d{nth}/f")), 100)));
        let device = disk.metadata().unwrap().dev();
        // The parent of a mount point has the device number of its own file system, so use `.`.
        let words = |more: &[&str]| {
            args!["."]
                .into_iter()
                .chain(more.iter().map(Into::into))
                .collect::<Vec<_>>()
        };
        let made = |more: &[&str], features: Option<&str>| {
            let mut command = dump_command(ground, words(more).into_iter().chain(args!["--json"]));
            command.current_dir(&tree);
            if let Some(features) = features {
                command.env("RESTIC_FEATURES", features);
            }
            run(&mut command).exits(0).json()["result"]["tree"].clone()
        };
        let tree_of = |tree: &serde_json::Value| {
            let words = args!["cat", "blob", tree.as_str().unwrap()];
            serde_json::from_str::<serde_json::Value>(&said(ground, words)).unwrap()
        };
        let with = tree_of(&made(&[], None))["nodes"][0]["device_id"].clone();
        assert_eq!(with, device);
        let option = made(&["--device-id-for-hardlinks"], None);
        let node = tree_of(&option)["nodes"][0].clone();
        assert!(node.get("device_id").is_none(), "{node}");
        assert_eq!(made(&[], Some("device-id-for-hardlinks=true")), option);
        check(ground);
    });
}

/// A password can have any bytes, or none.
#[test]
fn passwords_are_any_bytes() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        file(dir(ground.join("tree")).join("file"), 100);
        fs::write(ground.join("bytes"), b"p\xe9ss\n").unwrap();
        fs::write(ground.join("none"), b"").unwrap();
        for name in ["bytes", "none"] {
            restic(
                ground,
                args!["key", "add", "--new-password-file", ground.join(name)],
            )
            .exits(0);
        }
        let with = |words: &[&str]| {
            let words = args!["tree"]
                .into_iter()
                .chain(words.iter().map(Into::into));
            let mut command = dump_command(ground, words);
            command.env_remove("RESTIC_PASSWORD");
            command
        };
        run(&mut with(&["--password-file", "bytes"])).exits(0);
        run(&mut with(&["--insecure-no-password"])).exits(0);
        run(&mut with(&["--password-file", "none"])).refused();
        let both = run(with(&["--insecure-no-password"]).env("RESTIC_PASSWORD", PASSWORD));
        assert!(both.refused().stderr.contains("excludes a password"));
        let mut theirs = restic_command(ground, args!["snapshots", "--password-file", "bytes"]);
        theirs.env_remove("RESTIC_PASSWORD");
        run(&mut theirs).exits(0);
        // A key whose scrypt parameters need all memory is refused.
        let keys = ground.join("repo/keys");
        let key = fs::read_dir(&keys).unwrap().next().unwrap().unwrap().path();
        let text = fs::read_to_string(&key).unwrap();
        let mut parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
        parsed["N"] = (1_u64 << 40).into();
        let mut only = fs::read_dir(&keys).unwrap();
        assert!(only.all(|it| fs::remove_file(it.unwrap().path()).is_ok()));
        fs::write(&key, parsed.to_string()).unwrap();
        let said = run(&mut dump_command(ground, args!["tree"]))
            .refused()
            .stderr;
        assert!(said.contains("cannot be used"), "{said}");
    });
}
