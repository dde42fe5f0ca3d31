// Compiled only to give the precompiled header an owner.
