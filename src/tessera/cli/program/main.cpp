#include "tessera/cli/cli.h"

int main(int count, char** arguments) { return tessera::cli::run({arguments + 1, arguments + count}); }
