//! Reads a file of measurements: comma-separated values, or fathom's own JSON.

use super::runs::MeasuredFile;
use super::{csv, json};
use crate::error::{Error, InputFault};

/// Parses `bytes`, the contents of the file `path`. A system without a name is named after the
/// file.
///
/// # Errors
/// Why the file has no measurements.
pub fn parse(path: &[u8], bytes: &[u8]) -> Result<MeasuredFile, Error> {
    let text = str::from_utf8(bytes).map_err(|e| {
        let valid = bytes.get(..e.valid_up_to()).unwrap_or_default();
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        InputFault::NotUtf8.at(line)
    })?;
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let mut file = if json::is_json(text) {
        json::parse(text, name)?
    } else {
        MeasuredFile {
            runs: Ok(csv::parse(text)?),
            count: 0,
            figures: None,
        }
    };
    let stem = name.strip_suffix(b".csv").unwrap_or(name);
    if let Ok(runs) = &mut file.runs {
        let is_alone = runs.systems.len() == 1;
        for system in &mut runs.systems {
            system.file = path.to_vec();
            if system.name.is_empty() {
                system.name = stem.to_vec();
                if !is_alone {
                    system.name.extend(format!(":{}", system.line).bytes());
                }
            }
        }
    }
    Ok(file)
}
