//! What has changed in a subvolume since a generation of it, at a cost in proportion to the change.
