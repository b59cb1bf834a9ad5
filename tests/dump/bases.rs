//! Tests of catalogs that are refused as a base.

use std::fs;
use std::path::Path;

use super::full::NEEDS;
use super::rounds::on;
use crate::support::build::{file, tmpfs};
use crate::support::disks::EXT4;
use crate::support::reference::settle;
use crate::support::run::args;
use crate::support::trees::Dice;
use crate::support::{fathom, require, run};

/// No dumpdir lists a SRC itself, so an increment cannot record that a SRC is no longer a
/// directory.
#[test]
fn source_that_changed_its_type_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let of = |more: &[&str]| {
        run(fathom(["dump", "one", "two", "-q", "-o"])
            .args(more)
            .current_dir(place.path()))
    };
    file(at("one/f"), 1);
    file(at("two"), 1);
    of(&["0.tar", "--catalog", "c"]).exits(0);
    fs::rename(at("one"), at("aside")).unwrap();
    file(at("one"), 2);
    let ran = of(&["1.tar", "--since", "c"]).refused();
    assert!(
        ran.stderr
            .contains("'one' was a directory, and is not one now")
            && ran.stderr.contains("make a full dump"),
        "{ran}"
    );
    fs::remove_file(at("one")).unwrap();
    fs::rename(at("aside"), at("one")).unwrap();
    fs::remove_file(at("two")).unwrap();
    file(at("two/g"), 1);
    let ran = of(&["1.tar", "--since", "c"]).refused();
    assert!(
        ran.stderr
            .contains("'two' is now a directory, and was not one")
            && ran.stderr.contains("make a full dump"),
        "{ran}"
    );
    assert!(!at("1.tar").exists());
}

#[test]
fn catalog_of_other_sources_is_refused() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(EXT4[0]), |at, ground| {
        file(at.join("one/f"), 1);
        file(at.join("two/f"), 1);
        let (catalog, archive) = (ground.join("catalog"), ground.join("a.tar"));
        run(fathom(args!["dump", "one", "-o", archive, "--catalog", catalog]).current_dir(at))
            .exits(0);
        fs::remove_file(&archive).unwrap();
        let refused = |sources: &[&str]| {
            let mut command = fathom(args!["dump", "-o", archive, "--since", catalog]);
            run(command.args(sources).current_dir(at)).refused();
            assert!(!archive.exists());
        };
        refused(&["two"]);
        refused(&["one", "two"]);
        refused(&["."]);
        // A longer path of the SRC, with the same name in the archive, is accepted.
        run(fathom(args![
            "dump",
            "./../disk/one",
            "-o",
            archive,
            "--since",
            catalog
        ])
        .current_dir(at))
        .exits(2);
        // A different directory at the path of the SRC, on a different file system.
        tmpfs(at.join("one"));
        refused(&["one"]);
    });
}

/// A base with a flipped bit or a missing end is refused, or gives the same increment.
#[test]
fn damaged_base_catalog_is_refused() {
    if !require(&NEEDS) {
        return;
    }
    on(None, |at, ground| {
        for n in 0..300 {
            file(at.join(format!("tree/{}/f{n}", n % 7)), n);
        }
        settle(at);
        let (catalog, damaged, archive) = (
            ground.join("catalog"),
            ground.join("damaged"),
            ground.join("a.tar"),
        );
        run(fathom(args!["dump", "tree", "-o", archive, "--catalog", catalog]).current_dir(at))
            .exits(0);
        fs::remove_dir_all(at.join("tree/2")).unwrap();
        fs::rename(at.join("tree/3"), at.join("tree/new")).unwrap();
        file(at.join("tree/4/f4"), 5);
        settle(at);
        let renewed = ground.join("renewed");
        let dump = |catalog: &Path, renews: bool| {
            let mut fathom = fathom(args![
                "dump", "tree", "-q", "-o", archive, "--since", catalog
            ]);
            if renews {
                fathom.args(args!["--catalog", renewed]);
            }
            run(fathom.current_dir(at))
        };
        let changed = |catalog: &Path| {
            run(fathom(args![
                "changed", "tree", "-q", "--format", "ndjson", "--since", catalog
            ])
            .current_dir(at))
        };
        // Run `changed` first: it reads directories, which updates their access times.
        let told = changed(&catalog).exits(0).stdout;
        dump(&catalog, false).exits(0);
        let expected = fs::read(&archive).unwrap();
        let (whole, mut dice) = (fs::read(&catalog).unwrap(), Dice::new(11));
        let mut refused = 0;
        // A catalog whose footer names a different writer counts as a copy made by a different
        // program.
        let writer = b"fathom 0.";
        let mut windows = whole.windows(writer.len());
        let writer = windows.position(|bytes| bytes == writer).unwrap();
        for round in 0..80 {
            let mut bytes = whole.clone();
            let bit = match round {
                2 => 8 * writer,
                _ => dice.below(whole.len() * 8),
            };
            match round % 8 {
                0 => bytes.truncate(bit / 8),
                1 => bytes[bit / 8..]
                    .iter_mut()
                    .take(4)
                    .for_each(|byte| *byte = dice.below(256) as u8),
                _ => bytes[bit / 8] ^= 1 << (bit % 8),
            }
            fs::write(&damaged, bytes).unwrap();
            fs::remove_file(&archive).unwrap();
            let _ = fs::remove_file(&renewed);
            // The checksums are only read if a new catalog is written.
            let renews = round / 8 % 2 == 1;
            let ran = dump(&damaged, renews);
            if ran.code() == 2 {
                let ran = ran.refused();
                let says = |part: &str| ran.stderr.contains(part);
                // Without the magic number at its end, the file is not recognized as a catalog.
                let hints = says("make a full dump") || says("a file that --catalog has written");
                let says = says("/damaged': ") && hints;
                assert!(says && !archive.exists() && !renewed.exists(), "{ran}");
                refused += 1;
                fs::write(&archive, "").unwrap();
            } else {
                assert!(
                    fs::read(&archive).unwrap() == expected,
                    "round {round}, bit {bit}: {}",
                    ran.exits(0)
                );
                assert_eq!(renewed.exists(), renews);
            }
            let ran = changed(&damaged);
            if ran.code() == 2 {
                drop(ran.refused())
            } else {
                assert_eq!(ran.exits(0).stdout, told)
            }
        }
        assert!(refused > 20, "{refused}");
    });
}
