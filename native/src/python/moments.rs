//! Moments: datetimes in UTC as microseconds since 1970, which is what event times and their encoding are.
//!
//! Does not: know other zones, or datetimes where the kernel is built for all versions of Python (the feature
//! `abi3`): Python reads those.

use crate::python::objects::Object;

/// The tag of a datetime on the wire (`model/payloads/values.py`).
pub const DATETIME_TAG: u32 = 4;

#[cfg(not(feature = "abi3"))]
mod chosen {
    use super::Object;
    use pyo3::ffi;
    use pyo3::prelude::*;
    use pyo3::types::{PyDateTime, PyTzInfo};

    const DAY: i64 = 86_400;

    /// Once, before anything else here.
    pub fn begin() {
        // SAFETY: the GIL is held where a module is imported.
        unsafe { ffi::PyDateTime_IMPORT() };
        // SAFETY: as above.
        assert!(!unsafe { ffi::PyDateTimeAPI() }.is_null(), "CPython has its datetimes in C");
    }

    /// Microseconds since 1970; None unless it is a datetime whose zone is `datetime.UTC`.
    /// SAFETY: `object` is alive and the GIL is held.
    #[inline]
    pub unsafe fn microseconds(object: Object) -> Option<i64> {
        if ffi::PyDateTime_CheckExact(object) == 0
            || ffi::PyDateTime_DATE_GET_TZINFO(object) != ffi::PyDateTime_TimeZone_UTC()
        {
            return None;
        }
        let days = days(
            ffi::PyDateTime_GET_YEAR(object) as i64,
            ffi::PyDateTime_GET_MONTH(object) as i64,
            ffi::PyDateTime_GET_DAY(object) as i64,
        );
        let minutes = ffi::PyDateTime_DATE_GET_HOUR(object) as i64 * 60
            + ffi::PyDateTime_DATE_GET_MINUTE(object) as i64;
        let seconds = days * DAY + minutes * 60 + ffi::PyDateTime_DATE_GET_SECOND(object) as i64;
        Some(seconds * 1_000_000 + ffi::PyDateTime_DATE_GET_MICROSECOND(object) as i64)
    }

    /// The datetime in UTC; None if there is none, outside of the years 1 to 9999.
    pub fn datetime(py: Python<'_>, microseconds: i64) -> Option<Bound<'_, PyAny>> {
        let (seconds, rest) = (microseconds.div_euclid(1_000_000), microseconds.rem_euclid(1_000_000));
        let (day, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        let (year, month, day) = date(day);
        let zone = PyTzInfo::utc(py).ok()?;
        let clock = ((second / 3600) as u8, (second / 60 % 60) as u8, (second % 60) as u8);
        let year = i32::try_from(year).ok()?;
        PyDateTime::new(py, year, month, day, clock.0, clock.1, clock.2, rest as u32, Some(&zone))
            .ok()
            .map(Bound::into_any)
    }

    /// Days since 1970 of a date (Howard Hinnant's `days_from_civil`).
    fn days(year: i64, month: i64, day: i64) -> i64 {
        let year = if month <= 2 { year - 1 } else { year };
        let era = year.div_euclid(400);
        let of_era = year.rem_euclid(400);
        let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
    }

    /// The date of a day since 1970 (`civil_from_days`).
    fn date(day: i64) -> (i64, u8, u8) {
        let day = day + 719_468;
        let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = (of_year - (153 * month + 2) / 5 + 1) as u8;
        let month = if month < 10 { month + 3 } else { month - 9 };
        (year + era * 400 + i64::from(month <= 2), month as u8, day)
    }

    #[cfg(test)]
    mod tests {
        use super::{date, days};

        #[test]
        fn a_day_is_the_date_that_it_came_of() {
            assert_eq!(days(1970, 1, 1), 0);
            assert_eq!(days(2000, 3, 1), 11_017);
            let step = if cfg!(miri) { 9_973 } else { 97 };
            for day in (-719_162..2_932_896).step_by(step) {
                let (year, month, of_month) = date(day);
                assert_eq!(days(year, i64::from(month), i64::from(of_month)), day);
            }
        }
    }
}

#[cfg(feature = "abi3")]
mod chosen {
    use super::Object;
    use pyo3::prelude::*;

    pub fn begin() {}

    /// SAFETY: of any object.
    pub unsafe fn microseconds(_: Object) -> Option<i64> {
        None
    }

    pub fn datetime(_: Python<'_>, _: i64) -> Option<Bound<'_, PyAny>> {
        None
    }
}

pub use chosen::*;
