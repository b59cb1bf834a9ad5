//! Every public error implements `std::error::Error`, and can be sent to another thread. This fails
//! to compile when one does not. A new error type belongs into the list.

fn is_error<E: std::error::Error + Send + Sync + 'static>() {}

#[test]
fn errors_are_errors() {
    is_error::<archive::Error>();
    is_error::<archive::ErrorKind>();
    is_error::<crate::error::Error>();
    is_error::<gate::Errno>();
    is_error::<gate::bpf::LoadError>();
    is_error::<meter::Error>();
    is_error::<meter::CommandError>();
    is_error::<meter::Unavailable>();
    is_error::<ondisk::ParseTimeError>();
    is_error::<ondisk::ext4::Error>();
    is_error::<pathwalk::Error>();
    is_error::<survey::Error>();
}
