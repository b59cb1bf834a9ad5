//! Every public error implements `std::error::Error`, and can be sent to another thread. This fails
//! to compile when one does not. Add each new error type.

fn is_error<E: std::error::Error + Send + Sync + 'static>() {}

#[test]
fn errors_are_errors() {
    is_error::<account::Error>();
    is_error::<account::ErrorKind>();
    is_error::<archive::Error>();
    is_error::<archive::ErrorKind>();
    is_error::<archive::WarningKind>();
    is_error::<archive::verify::Difference>();
    is_error::<archive::verify::TreeAccess>();
    is_error::<archive::BadName>();
    is_error::<archive::Damage>();
    is_error::<archive::NotArchive>();
    is_error::<archive::account::Unavailable>();
    is_error::<archive::token::UnknownToken>();
    is_error::<crate::error::Error>();
    is_error::<gate::Errno>();
    is_error::<gate::bpf::LoadError>();
    is_error::<meter::CommandError>();
    is_error::<meter::Error>();
    is_error::<meter::Unavailable>();
    is_error::<meter::WarningKind>();
    is_error::<mounts::Error>();
    is_error::<mounts::ErrorKind>();
    is_error::<mounts::FanotifyRefusal>();
    is_error::<mounts::WarningKind>();
    is_error::<ondisk::ParseTimeError>();
    is_error::<ondisk::ext4::Error>();
    is_error::<ondisk::pax::Fault>();
    is_error::<pathsearch::WarningKind>();
    is_error::<pathwalk::Error>();
    is_error::<pathwalk::WarningKind>();
    is_error::<probe::Error>();
    is_error::<probe::error::SampleFault>();
    is_error::<survey::Error>();
    is_error::<walk::EngineRefusal>();
    is_error::<walk::Error>();
    is_error::<walk::WarningKind>();
}
