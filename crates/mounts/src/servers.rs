//! The servers of network mounts.

use ondisk::split_options;

use crate::kind::is_remote_fuse;
use crate::point::Point;

/// Sets the server of each network mount.
pub fn name_servers(points: &mut [Point]) {
    for point in points {
        if let (Some(fstype), Some(source)) = (point.fstype(), point.source()) {
            point.server = server(fstype, source, point.options().unwrap_or_default());
        }
    }
}

/// The server of a mount, from its source and options; `None` for a local file system. Several
/// servers (of ceph, gluster, lustre) are separated by commas.
fn server(fstype: &[u8], source: &[u8], options: &[u8]) -> Option<String> {
    let source = String::from_utf8_lossy(source);
    let option = |name: &str| {
        split_options(options).find_map(|option| {
            let value = option.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(String::from_utf8_lossy(value).into_owned())
        })
    };
    let named = match fstype {
        b"nfs" | b"nfs4" => host_of_colon_path(&source).or_else(|| option("addr")),
        b"cifs" | b"smb3" | b"smbfs" | b"ncpfs" | b"fuse.smbnetfs" => {
            host_of_share(&source).or_else(|| option("addr"))
        }
        b"ceph" => option("mon_addr")
            .map(|a| a.replace('/', ","))
            .or_else(|| host_of_colon_path(&source)),
        b"9p" => option("trans")
            .filter(|t| t != "virtio")
            .and(Some(source.to_string()).filter(|s| !s.is_empty())),
        b"lustre" => source.rfind(":/").map(|at| source[..at].replace(':', ",")),
        b"afs" => source
            .strip_prefix(['#', '%'])
            .map(|cell| cell.split(':').next().unwrap_or(cell).to_owned()),
        b"beegfs" | b"gpfs" => None,
        _ if is_remote_fuse(fstype) => host_of_url(&source)
            .or_else(|| host_of_share(&source))
            .or_else(|| host_of_colon_path(&source)),
        // The host in a URL is the server, whatever the type of file system.
        _ if fstype.starts_with(b"fuse") => host_of_url(&source),
        _ => None,
    };
    named.filter(|name| !name.is_empty())
}

/// The host in `nas:/srv`, `user@nas:dir`, `[fe80::1]:/srv`, `a,b:/vol`.
fn host_of_colon_path(source: &str) -> Option<String> {
    let host = match source.rfind("]:") {
        Some(end) => &source[..=end],
        None => {
            let (host, path) = source.split_once(':')?;
            // With ports, as in `mon1:6789,mon2:6789:/`, the path begins at the colon before a
            // slash.
            match path.find(":/") {
                Some(at) => &source[..host.len() + 1 + at],
                None => host,
            }
        }
    };
    if host.contains('/') {
        return None;
    }
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Some(host.to_owned())
}

/// The host in `//nas/share`.
fn host_of_share(source: &str) -> Option<String> {
    let host = source.strip_prefix("//")?.split('/').next()?;
    Some(host.rsplit('@').next()?.to_owned())
}

/// The host in `https://nas/dav`.
fn host_of_url(source: &str) -> Option<String> {
    let (scheme, rest) = source.split_once("://")?;
    let is_in_scheme = |c: char| c.is_ascii_alphanumeric() || c == '+';
    if scheme.is_empty() || !scheme.chars().all(is_in_scheme) {
        return None;
    }
    let host = rest.split('/').next()?.rsplit('@').next()?;
    let (host, _port) = host.rsplit_once(':').unwrap_or((host, ""));
    Some(host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::server;

    #[test]
    fn machine_is_read_from_source_and_options() {
        let of = |fstype: &str, source: &str, options: &[&str]| {
            server(
                fstype.as_bytes(),
                source.as_bytes(),
                options.join(",").as_bytes(),
            )
        };
        let cases: [(&str, &str, &[&str], Option<&str>); 18] = [
            ("nfs4", "nas1:/srv/home", &[], Some("nas1")),
            ("nfs", "[fe80::1%eth0]:/srv", &[], Some("fe80::1%eth0")),
            ("nfs", "/srv", &["addr=10.0.0.7"], Some("10.0.0.7")),
            ("cifs", "//filer/share/x", &[], Some("filer")),
            ("fuse.sshfs", "joe@build:/var", &[], Some("build")),
            ("fuse.sshfs", "build:", &[], Some("build")),
            ("fuse.glusterfs", "g1:/vol", &[], Some("g1")),
            (
                "ceph",
                "10.0.0.1:6789,10.0.0.2:6789:/",
                &[],
                Some("10.0.0.1:6789,10.0.0.2:6789"),
            ),
            (
                "ceph",
                "admin@fsid.cephfs=/",
                &["mon_addr=10.0.0.1:3300/10.0.0.2:3300"],
                Some("10.0.0.1:3300,10.0.0.2:3300"),
            ),
            (
                "lustre",
                "mgs1@tcp:mgs2@tcp:/scratch",
                &[],
                Some("mgs1@tcp,mgs2@tcp"),
            ),
            (
                "fuse",
                "https://joe@dav.example.org:8443/x",
                &[],
                Some("dav.example.org"),
            ),
            ("fuse.bindfs", "/srv/a:b", &[], None),
            ("fuse.mergerfs", "disk1:disk2", &[], None),
            ("fuse.unionfs", "//disk1/a", &[], None),
            ("fuse", "a:b", &[], None),
            ("fuse.rclone", "store:bucket", &[], Some("store")),
            ("ext4", "/dev/sda1", &[], None),
            ("9p", "hostshare", &["trans=virtio"], None),
        ];
        for (fstype, source, options, expected) in cases {
            assert_eq!(
                of(fstype, source, options).as_deref(),
                expected,
                "{fstype} {source}"
            );
        }
    }
}
