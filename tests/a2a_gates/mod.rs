//! What gets through the doors of A2A and what does not: each refusal in its binding's shape, with its code and reason,
//! and nothing written.

mod gate;
mod malformed;
mod errors;
mod versions;
mod matrix;
mod cards;
mod rejections;
