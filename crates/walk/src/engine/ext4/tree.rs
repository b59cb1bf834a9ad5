//! Reads the names: from the top down, level by level, first the inodes of directories, then their
//! blocks.
//!
//! A level is read in disk order, neighbouring blocks in one call. A directory that is encrypted,
//! damaged or being written is listed by the kernel later (`live.rs`).

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;

use gate::sync::Mutex;
use ondisk::FileType;
use ondisk::ext4::directory::{Name, checksum_holds};
use ondisk::ext4::{BlockMap, Branch, Error, Inode, Names as OnDisk, NodeEntry};

use super::crew::{Crew, ItemClaims};
use super::device::Device;
use super::near::{WINDOW, each_row, read_ahead, stretch};
use crate::entry::append;
use crate::filter::Matcher;
use crate::job::{Job, JobDirectory, MountHints};
use crate::key::DirKey;

/// The directories that were found, and the names in them.
#[derive(Debug, Default)]
pub(super) struct DirectoryTree {
    /// Directories. The first is the top; each comes after its parent.
    pub(super) nodes: Vec<TreeNode>,
    text: Vec<u8>,
    /// The names that each thread found.
    pub(super) names: Vec<FoundNames>,
    pub(super) faults: HashMap<u32, Error>,
    /// Names of directories that had been found under a different name already, each with its
    /// parent.
    pub(super) twice: Vec<(u32, Vec<u8>)>,
    entered: NumberSet,
}

/// How the entries of a directory are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DirectoryState {
    Raw,
    Live,
    /// No entries: the file is not a directory, or was deleted.
    Gone,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TreeNode {
    pub(super) parent: u32,
    pub(super) inode: u32,
    pub(super) key: DirKey,
    /// The seed of the checksums of the directory's blocks.
    seed: u32,
    text: usize,
    length: u8,
    pub(super) state: DirectoryState,
}

#[derive(Debug, Default)]
pub(super) struct FoundNames {
    pub(super) list: Vec<ListedInode>,
    text: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ListedInode {
    pub(super) dir: u32,
    pub(super) inode: u32,
    /// Offset of the file name in [`FoundNames::text`], times 256, plus its length.
    text: u64,
}

impl FoundNames {
    fn push(&mut self, dir: u32, name: &Name<'_>) {
        self.list.push(ListedInode {
            dir,
            inode: name.inode,
            text: (self.text.len() as u64) << 8 | name.name.len() as u64,
        });
        self.text.extend_from_slice(name.name);
    }

    pub(super) fn name(&self, item: &ListedInode) -> &[u8] {
        let from = (item.text >> 8) as usize;
        self.text
            .get(from..from + (item.text & 0xff) as usize)
            .unwrap_or_default()
    }
}

impl DirectoryTree {
    /// Adds a directory. `None` if it was found before, under a different name.
    fn add(&mut self, parent: u32, inode: u32, name: &[u8]) -> Option<u32> {
        let above = self.nodes.get(parent as usize)?;
        if !self.entered.mark(u64::from(inode), 1) {
            return None;
        }
        let node = TreeNode {
            parent,
            inode,
            key: above.key.below(name),
            seed: 0,
            text: self.text.len(),
            length: name.len() as u8, // names on disk have at most 255 bytes
            state: DirectoryState::Raw,
        };
        self.text.extend_from_slice(name);
        self.nodes.push(node);
        Some(self.nodes.len() as u32 - 1)
    }

    pub(super) fn name(&self, node: &TreeNode) -> &[u8] {
        self.text
            .get(node.text..node.text + usize::from(node.length))
            .unwrap_or_default()
    }

    pub(super) fn place(&self, index: u32) -> JobDirectory {
        let mut names = Vec::new();
        let mut at = index;
        while at != 0 {
            let node = &self.nodes[at as usize];
            names.push(self.name(node));
            at = node.parent;
        }
        let mut rel = Vec::new();
        names.iter().rev().for_each(|name| append(&mut rel, name));
        let key = self.nodes[index as usize].key;
        JobDirectory { rel, key }
    }

    /// Whether a directory with this inode was found on the device.
    pub(super) fn has(&self, inode: u64) -> bool {
        self.entered.has(inode)
    }

    /// Marks a directory with tags to be listed by the kernel, because the walk then includes only
    /// the tags. Returns whether there are any.
    fn mark_if_tagged(&mut self, job: &Job<'_>, index: u32) -> bool {
        let tags = job
            .open(&self.place(index))
            .map(|fd| job.filter.tags().find(&fd));
        let is_tagged = tags.is_ok_and(|tags| !tags.is_empty());
        if is_tagged {
            self.nodes[index as usize].state = DirectoryState::Live;
        }
        is_tagged
    }

    fn record(&mut self, finding: Finding) {
        let node = &mut self.nodes[finding.node as usize];
        match finding.result {
            Ok((state, seed)) => (node.state, node.seed) = (state, seed),
            Err(fault) => {
                node.state = DirectoryState::Live;
                self.faults.insert(finding.node, fault);
            }
        }
    }
}

/// A set of numbers that are mostly close together: a bitmap per 4096 numbers.
#[derive(Debug, Default)]
pub(super) struct NumberSet(HashMap<u64, Box<[u64; 64]>>);

impl NumberSet {
    /// Adds a range of numbers to the set. Returns false if any of the numbers was in the set
    /// already.
    fn mark(&mut self, from: u64, count: u64) -> bool {
        let mut is_new = true;
        let mut at = from;
        while at < from + count {
            let part = self.0.entry(at >> 12).or_insert_with(|| Box::new([0; 64]));
            let end = (((at >> 12) + 1) << 12).min(from + count);
            for number in at..end {
                let (word, bit) = (&mut part[(number >> 6 & 63) as usize], 1 << (number & 63));
                is_new &= *word & bit == 0;
                *word |= bit;
            }
            at = end;
        }
        is_new
    }

    fn has(&self, number: u64) -> bool {
        self.0
            .get(&(number >> 12))
            .is_some_and(|part| part[(number >> 6 & 63) as usize] >> (number & 63) & 1 == 1)
    }
}

/// Reads all directories below the top.
pub(super) fn descend(crew: &Crew<'_>) -> DirectoryTree {
    let job = crew.job;
    let top = job.top;
    let mut tree = DirectoryTree::default();
    tree.entered.mark(top.meta.ino, 1);
    tree.nodes.push(TreeNode {
        parent: 0,
        inode: u32::try_from(top.meta.ino).unwrap_or(0),
        key: top.key,
        seed: 0,
        text: 0,
        length: 0,
        state: DirectoryState::Raw,
    });

    let claimed = Mutex::new(NumberSet::default());
    let mut hints = HashMap::from([(0, job.below)]);
    let mut scouts: Vec<_> = (0..crew.threads)
        .map(|_| TreeScanner::new(crew, &claimed))
        .collect();
    let mut fresh = vec![0];
    while !fresh.is_empty() && !job.is_over() {
        fresh.sort_unstable_by_key(|&index: &u32| tree.nodes[index as usize].inode);
        crew.share(fresh.len(), 256, &mut scouts, |scout, claims| {
            scout.inodes(claims, &fresh, &tree, &hints)
        });
        let mut spans = Vec::new();
        for scout in &mut scouts {
            spans.append(&mut scout.spans);
            let findings = scout.findings.drain(..);
            findings.for_each(|finding| tree.record(finding));
        }
        let spans = sort_spans(
            spans,
            &mut tree,
            &claimed,
            crew.device.superblock.block_size,
        );
        crew.share(spans.len(), 128, &mut scouts, |scout, claims| {
            scout.blocks(claims, &spans, &tree, &hints)
        });

        fresh.clear();
        let mut tagged = HashSet::new();
        for scout in &mut scouts {
            let findings = scout.findings.drain(..);
            findings.for_each(|finding| tree.record(finding));
            tagged.extend(scout.tagged.drain(..));
        }
        tagged.retain(|&node| tree.mark_if_tagged(job, node));
        for scout in &mut scouts {
            for (dir, name) in scout.mounts.drain(..) {
                if !tagged.contains(&dir) {
                    job.cross(tree.place(dir), &name);
                }
            }
            let children = scout.children.drain(..);
            for child in children.filter(|child| !tagged.contains(&child.dir)) {
                let name = scout.names.name(&scout.names.list[child.item as usize]);
                if let Some(index) = tree.add(child.dir, child.inode, name) {
                    fresh.push(index);
                    let hint = hints.get(&child.dir).and_then(|hint| hint.step(name));
                    hints.extend(hint.map(|hint| (index, hint)));
                } else if child.is_sure {
                    tree.twice.push((child.dir, name.to_vec()));
                }
            }
        }
    }
    let names = scouts.into_iter().map(|scout| scout.names);
    tree.names = names.filter(|names| !names.list.is_empty()).collect();
    tree
}

/// Sorts the spans by place, and splits long ones for several threads. A directory whose blocks
/// belong to a different directory, too, is damaged, and is dropped: the same bytes could otherwise
/// be read again and again.
fn sort_spans(
    mut spans: Vec<BlockSpan>,
    tree: &mut DirectoryTree,
    claimed: &Mutex<NumberSet>,
    block_size: u32,
) -> Vec<BlockSpan> {
    let mut claimed = claimed.lock();
    spans.sort_unstable_by_key(|span| span.place);
    let most = (WINDOW as u32 / block_size).max(1);
    let mut pieces = Vec::with_capacity(spans.len());
    for mut span in spans {
        if !claimed.mark(span.place, u64::from(span.blocks)) {
            tree.record(Finding::fault(span.node, Error::BlocksShared));
            continue;
        }
        while span.blocks > most {
            let blocks = most;
            pieces.push(BlockSpan { blocks, ..span });
            span.place += u64::from(most);
            span.blocks -= most;
            span.is_root = false;
        }
        pieces.push(span);
    }
    pieces
}

#[derive(Clone, Copy)]
struct BlockSpan {
    place: u64,
    blocks: u32,
    node: u32,
    /// Whether the first block of the span is the root of a hash tree.
    is_root: bool,
}

/// How a directory is to be read and the seed of its checksums, or how it is damaged.
struct Finding {
    node: u32,
    result: Result<(DirectoryState, u32), Error>,
}

impl Finding {
    fn fault(node: u32, fault: Error) -> Finding {
        let result = Err(fault);
        Finding { node, result }
    }
}

/// A directory entry that is, or may be, a directory.
struct Child {
    dir: u32,
    inode: u32,
    item: u32,
    is_sure: bool,
}

struct TreeDirectory<'a> {
    node: u32,
    hint: Option<&'a MountHints>,
    enters: bool,
}

/// The state of one thread, with the names and directories that it has found.
struct TreeScanner<'a> {
    job: &'a Job<'a>,
    device: &'a Device,
    claimed: &'a Mutex<NumberSet>,
    buffer: Vec<u8>,
    matcher: Matcher<'a>,
    names: FoundNames,
    findings: Vec<Finding>,
    spans: Vec<BlockSpan>,
    children: Vec<Child>,
    /// The names of tags (files that exclude their directory), and the directories with such a
    /// name.
    tags: Vec<&'a CStr>,
    tagged: Vec<u32>,
    /// Names where mounts begin, with their directories.
    mounts: Vec<(u32, Vec<u8>)>,
}

type Hints<'a> = HashMap<u32, &'a MountHints>;

impl<'a> TreeScanner<'a> {
    fn new(crew: &'a Crew<'_>, claimed: &'a Mutex<NumberSet>) -> TreeScanner<'a> {
        TreeScanner {
            job: crew.job,
            device: crew.device,
            claimed,
            buffer: Vec::new(),
            matcher: crew.job.filter.matcher(),
            names: FoundNames::default(),
            findings: Vec::new(),
            spans: Vec::new(),
            children: Vec::new(),
            tags: crew.job.filter.tags().names().collect(),
            tagged: Vec::new(),
            mounts: Vec::new(),
        }
    }

    /// Reads the inodes of some directories, and finds the blocks of these directories.
    fn inodes(
        &mut self,
        claims: ItemClaims<'_>,
        fresh: &[u32],
        tree: &DirectoryTree,
        hints: &Hints<'_>,
    ) {
        let mut buffer = std::mem::take(&mut self.buffer);
        for range in claims {
            let (device, nodes) = (self.device, &fresh[range]);
            each_inode(device, tree, nodes, &mut buffer, |node, inode| {
                let spans = self.spans.len();
                let result = match inode {
                    None => Ok((DirectoryState::Live, 0)),
                    Some(inode) if !inode.is_directory() => Ok((DirectoryState::Gone, 0)),
                    Some(inode) if inode.is_encrypted() => Ok((DirectoryState::Live, 0)),
                    Some(inode) if inode.is_inline() => self.inline(node, &inode, tree, hints),
                    Some(inode) => self.map(node, &inode),
                };
                if result.is_err() {
                    self.spans.truncate(spans);
                }
                self.findings.push(Finding { node, result });
            });
        }
        self.buffer = buffer;
    }

    fn map(&mut self, node: u32, inode: &Inode<'_>) -> Result<(DirectoryState, u32), Error> {
        let superblock = &self.device.superblock;
        let map = BlockMap::new(inode, superblock);
        let mut branches: Vec<Branch> = Vec::new();
        let is_indexed = inode.is_indexed();
        let mut sort = |found: NodeEntry, branches: &mut Vec<Branch>| match found {
            NodeEntry::Branch(branch) => branches.push(branch),
            NodeEntry::Run(run) => self.spans.push(BlockSpan {
                place: run.place,
                blocks: run.blocks,
                node,
                is_root: is_indexed && run.logical == 0,
            }),
        };
        map.root(inode.body(), &mut |found| sort(found, &mut branches))?;
        let mut block = Vec::new();
        while let Some(branch) = branches.pop() {
            if !self.claimed.lock().mark(branch.place, 1) {
                return Err(Error::BlocksShared);
            }
            block.resize(superblock.block_size as usize, 0);
            let place = branch.place * u64::from(superblock.block_size);
            let read = self.device.read(place, &mut block);
            read.map_err(|_| Error::BlocksUnreadable)?;
            map.branch(branch, &block, &mut |found| sort(found, &mut branches))?;
        }
        Ok((DirectoryState::Raw, inode.seed()))
    }

    /// Reads the names of a directory that is stored in its inode.
    fn inline(
        &mut self,
        node: u32,
        inode: &Inode<'_>,
        tree: &DirectoryTree,
        hints: &Hints<'_>,
    ) -> Result<(DirectoryState, u32), Error> {
        let rest = inode.inline_value().ok_or(Error::NoInlineData)?;
        let content = [&inode.body()[..], rest].concat();
        let here = self.here(node, tree, hints);
        let mut names = OnDisk::inline(&content, &self.device.superblock);
        for name in names.by_ref() {
            self.name(&here, &name, tree);
        }
        names.end().map(|()| (DirectoryState::Raw, inode.seed()))
    }

    fn blocks(
        &mut self,
        claims: ItemClaims<'_>,
        spans: &[BlockSpan],
        tree: &DirectoryTree,
        hints: &Hints<'_>,
    ) {
        /// Maximum gap between blocks in one read: to read a gap costs less than another call.
        const GAP: u64 = 1;
        let superblock = &self.device.superblock;
        let block_size = superblock.block_size as usize;
        let lies = |span: &BlockSpan| span.place..span.place + u64::from(span.blocks);
        let mut buffer = std::mem::take(&mut self.buffer);
        for range in claims {
            let mut rest = &spans[range];
            read_ahead(self.device, rest, lies, block_size as u64);
            while !rest.is_empty() {
                let (count, window) = stretch(rest, lies, GAP, WINDOW / block_size as u64);
                let (some, others) = rest.split_at(count);
                rest = others;
                buffer.resize((window.end - window.start) as usize * block_size, 0);
                let read = self
                    .device
                    .read(window.start * block_size as u64, &mut buffer);
                if read.is_err() {
                    let unread =
                        |span: &BlockSpan| Finding::fault(span.node, Error::BlocksUnreadable);
                    self.findings.extend(some.iter().map(unread));
                    continue;
                }
                let mut here = self.here(some[0].node, tree, hints);
                for span in some {
                    if here.node != span.node {
                        here = self.here(span.node, tree, hints);
                    }
                    let from = (span.place - window.start) as usize * block_size;
                    let blocks = &buffer[from..from + span.blocks as usize * block_size];
                    for (nth, block) in blocks.chunks_exact(block_size).enumerate() {
                        let is_root = span.is_root && nth == 0;
                        if let Err(fault) = self.block(&here, block, is_root, tree) {
                            self.findings.push(Finding::fault(span.node, fault));
                        }
                    }
                }
            }
        }
        self.buffer = buffer;
    }

    fn block(
        &mut self,
        here: &TreeDirectory<'_>,
        block: &[u8],
        is_root: bool,
        tree: &DirectoryTree,
    ) -> Result<(), Error> {
        let superblock = &self.device.superblock;
        if superblock.has_checksums()
            && !checksum_holds(block, tree.nodes[here.node as usize].seed, is_root)
        {
            return Err(Error::DirectoryChecksum);
        }
        let mut names = OnDisk::in_block(block, superblock);
        for name in names.by_ref() {
            self.name(here, &name, tree);
        }
        names.end()
    }

    fn here<'h>(
        &mut self,
        node: u32,
        tree: &DirectoryTree,
        hints: &Hints<'h>,
    ) -> TreeDirectory<'h> {
        let filter = self.job.filter;
        if filter.wants_paths() {
            self.matcher.enter(&self.job.path(&tree.place(node)));
        }
        TreeDirectory {
            node,
            hint: hints.get(&node).copied(),
            enters: filter.enters(tree.nodes[node as usize].key.depth + 1),
        }
    }

    #[inline]
    fn name(&mut self, here: &TreeDirectory<'_>, name: &Name<'_>, tree: &DirectoryTree) {
        if self.tags.iter().any(|tag| tag.to_bytes() == name.name) {
            self.tagged.push(here.node);
        }
        if !self.matcher.keeps(name.name)
            || here.hint.is_some() && self.is_crossing(here, name, tree)
        {
            return;
        }
        if here.enters && name.file_type.may_be_directory() {
            let is_sure = name.file_type == FileType::Directory;
            self.children.push(Child {
                dir: here.node,
                inode: name.inode,
                item: self.names.list.len() as u32,
                is_sure,
            });
        }
        self.names.push(here.node, name);
    }

    /// Whether another mount begins at a name; if so, records the mount. The mount table is a hint
    /// that statx(2) confirms.
    #[cold]
    fn is_crossing(
        &mut self,
        here: &TreeDirectory<'_>,
        name: &Name<'_>,
        tree: &DirectoryTree,
    ) -> bool {
        if !MountHints::is_mount(here.hint, name.name) {
            return false;
        }
        let (job, dir) = (self.job, tree.place(here.node));
        let seen = job.look(&dir, name.name);
        let is_crossing = seen.is_ok_and(|seen| job.is_crossing(&seen));
        if is_crossing {
            self.mounts.push((here.node, name.name.to_vec()));
        }
        is_crossing
    }
}

/// Reads the inodes of some directories: `None` where statx(2) must be called instead.
pub(super) fn each_inode(
    device: &Device,
    tree: &DirectoryTree,
    nodes: &[u32],
    buffer: &mut Vec<u8>,
    mut each: impl FnMut(u32, Option<Inode<'_>>),
) {
    let number = |&node: &u32| tree.nodes[node as usize].inode;
    each_row(device, nodes, number, buffer, |&node, raw| {
        let parse = |raw| Inode::parse(&device.superblock, number(&node), raw);
        each(node, raw.and_then(parse));
    });
}
