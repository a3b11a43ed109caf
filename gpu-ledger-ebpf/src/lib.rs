//! The wire format between the kernel programs and user space: the one definition both sides share.
#![no_std]
