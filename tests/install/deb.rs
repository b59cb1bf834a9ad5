//! Tests of the Debian package.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::*;
use crate::support::need::tool_path;
use crate::support::run::{args, program};
use crate::support::tool::tool;
use crate::support::{Need, require, run};

const CARGO_DEB: &str = "bin/cargo-deb";

/// Builds a package of the tested program, like `make deb`.
fn package(place: &Path) -> PathBuf {
    let dist = place.join("target/dist");
    fs::create_dir_all(&dist).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_fathom"), dist.join("fathom")).unwrap();
    let mut deb = Command::new(top().join("tools/deb"));
    let tools = [tool_path("bin")]
        .into_iter()
        .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap()))
        .collect::<Vec<_>>();
    let path = std::env::join_paths(tools).unwrap();
    tool(
        deb.arg("--fast")
            .env("PATH", path)
            .env("CARGO_TARGET_DIR", place.join("target")),
    );
    let made: Vec<_> = fs::read_dir(place.join("target/debian"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let debs: Vec<_> = made
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .collect();
    assert_eq!(debs.len(), 1, "{made:?}");
    debs[0].clone()
}

fn dpkg(words: impl IntoIterator<Item = std::ffi::OsString>) -> String {
    String::from_utf8(tool(Command::new("dpkg-deb").args(words))).unwrap()
}

#[test]
fn a_package_has_all_that_belongs_to_it() {
    if require(&[
        Need::Tool(CARGO_DEB),
        Need::Program("dpkg-deb"),
        Need::Program("dpkg-shlibdeps"),
        Need::Program("gzip"),
        Need::Root,
    ]) {
        let place = tempfile::tempdir().unwrap();
        let deb = package(place.path());
        let field = |name: &str| dpkg(args!["--field", deb, name]).trim_end().to_owned();
        assert_eq!(field("Package"), "fathom");
        assert_eq!(field("Version"), format!("{}-1", env!("CARGO_PKG_VERSION")));
        assert_eq!(
            field("Architecture"),
            String::from_utf8(tool(Command::new("dpkg").arg("--print-architecture")))
                .unwrap()
                .trim_end()
        );
        // The package depends on the libraries that the program is linked with, and nothing else:
        // the tested program has the feature mpi.
        let depends = field("Depends");
        let packages: BTreeSet<&str> = depends
            .split(", ")
            .map(|one| one.split(' ').next().unwrap())
            .collect();
        assert!(
            packages.contains("libc6")
                && packages.is_subset(&["libc6", "libgcc-s1", "libopenmpi3"].into()),
            "{depends}"
        );
        assert!(field("Description").lines().count() > 2 && field("Maintainer").contains('<'));

        let listed = dpkg(args!["--contents", deb]);
        let files: BTreeSet<String> = listed
            .lines()
            .map(|line| line.split(" ./").nth(1).unwrap().to_owned())
            .collect();
        let files: BTreeSet<&str> = files
            .iter()
            .map(String::as_str)
            .filter(|file| !file.ends_with('/'))
            .collect();
        let pages = COMMANDS.map(|command| format!("usr/share/man/man1/fathom-{command}.1.gz"));
        let expected: BTreeSet<&str> = pages
            .iter()
            .map(String::as_str)
            .chain([
                "usr/bin/fathom",
                "usr/share/bash-completion/completions/fathom",
                "usr/share/doc/fathom/changelog.Debian.gz",
                "usr/share/doc/fathom/changelog.gz",
                "usr/share/doc/fathom/copyright",
                "usr/share/fish/vendor_completions.d/fathom.fish",
                "usr/share/man/man1/fathom.1.gz",
                "usr/share/zsh/vendor-completions/_fathom",
            ])
            .collect();
        assert_eq!(files, expected);
        for line in listed.lines() {
            let mode = if line.contains(" ./usr/bin/fathom") || line.starts_with('d') {
                "rwxr-xr-x"
            } else {
                "rw-r--r--"
            };
            assert!(
                line[1..].starts_with(mode) && line.contains(" 0/0 "),
                "{line}"
            );
        }

        installed_and_removed(place.path(), &deb);
    }
}

/// Installs the package in an empty root, runs the program, and removes the package.
fn installed_and_removed(place: &Path, deb: &Path) {
    let root = place.join("root");
    fs::create_dir_all(root.join("var/lib/dpkg/info")).unwrap();
    fs::create_dir_all(root.join("var/lib/dpkg/updates")).unwrap();
    fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let dpkg = || {
        let mut dpkg = Command::new("dpkg");
        dpkg.arg(format!("--root={}", root.display()))
            .arg("--force-depends")
            .arg("--no-triggers");
        dpkg
    };
    tool(dpkg().arg("--install").arg(deb));
    let said = run(&mut program(&root.join("usr/bin/fathom"), ["--version"])).exits(0);
    assert_eq!(
        said.lines(),
        [format!("fathom {}", env!("CARGO_PKG_VERSION"))]
    );
    let unpacked = |path: &str| {
        String::from_utf8(tool(Command::new("gzip").arg("-dc").arg(root.join(path)))).unwrap()
    };
    assert!(unpacked("usr/share/man/man1/fathom-walk.1.gz").contains(".TH fathom-walk 1"));
    assert!(unpacked("usr/share/doc/fathom/changelog.gz").starts_with("# Changelog"));
    assert!(
        unpacked("usr/share/doc/fathom/changelog.Debian.gz")
            .starts_with(&format!("fathom ({}-1) ", env!("CARGO_PKG_VERSION")))
    );
    let copyright = fs::read_to_string(root.join("usr/share/doc/fathom/copyright")).unwrap();
    assert!(
        copyright.contains("MIT") && copyright.contains("Apache-2.0"),
        "{copyright}"
    );
    tool(dpkg().arg("--purge").arg("fathom"));
    assert!(!root.join("usr").exists(), "something was left behind");
}
