#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/tidy against small trees: each rule fires exactly once where it must, and not beside it.

usage: test_tidy.py PATH-OF-TIDY
"""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TIDY = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else ""
ROOT = os.path.dirname(os.path.dirname(TIDY))
C = "/* SPDX-License-Identifier: Apache-2.0 */\n"
HASH = "# SPDX-License-Identifier: Apache-2.0\n"
FINDING = re.compile(r"^(\S+?):(\d+): ([\w.-]+): (.*)$", re.M)
# Built from two halves, so that this file has no mark of its own.
MARK = "TO" + "DO"


def load(path):
    """tidy as a module: sixty processes would make this the slowest unit test."""
    loader = importlib.machinery.SourceFileLoader("tidy", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tidy", loader))
    loader.exec_module(module)
    return module


def header(guard, body="int sn_x(void);\n"):
    return "%s#ifndef %s\n#define %s\n\n%s\n#endif\n" % (C, guard, guard, body)


class Tidy(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="tidy-")
        self.addCleanup(shutil.rmtree, self.root)
        shutil.copy(os.path.join(ROOT, ".clang-format"), self.root)

    def write(self, path, text):
        whole = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            return file.read()

    def tidy(self, *options):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = tidy.main(["--root", self.root, *options])
        found = [(path, int(line), rule) for path, line, rule, _ in FINDING.findall(out.getvalue())]
        self.assertEqual(status, 1 if found else 0, out.getvalue())
        self.assertRegex(out.getvalue(), r"tidy: %d findings in \d+ files\n\Z" % len(found))
        return found

    def expect(self, path, text, *findings, options=("--quick",)):
        """The file, alone, yields these (line, rule)."""
        self.write(path, text)
        self.assertEqual(self.tidy(*options), [(path, line, rule) for line, rule in findings])
        os.remove(os.path.join(self.root, path))

    def body(self, *statements, before=""):
        return C + before + "void sn_f(int x)\n{\n    " + "\n    ".join(statements) + "\n}\n"

    # --- a good tree ---

    def test_good_files_are_silent(self):
        self.write("runtime/base/thing.h", header("SN_BASE_THING_H"))
        self.write("runtime/include/sennit/thing.h", header("SN_THING_H"))
        self.write("runtime/wire/thing.c", C + '#include "wire/thing.h"\n\n#include <string.h>\n\n'
                   '#include "base/thing.h"\n#include "sennit/thing.h"\n')
        self.write("runtime/env/posix.c", C + "#include <fcntl.h>\n#include <pthread.h>\n\n"
                   "int sn_f(void)\n{\n    return open(\"x\", 0);\n}\n")
        self.write("runtime/link/link_nng.c", C + "#include <nng/nng.h>\n")
        self.write("tests/unit/base/test_x.c", C + "#include <openssl/ssl.h>\n\n"
                   "void *f(void)\n{\n    return malloc(1);\n}\n")
        self.write("agents/main.c", C + '#include "plugin/plugin.h"\n')
        self.write("tools/x.sh", "#!/bin/sh\n" + HASH + "true\n")
        self.write("config/x.yaml", HASH + "a: 1\n")
        self.assertEqual(self.tidy(), [])

    # --- includes ---

    def test_layer_above(self):
        self.expect("runtime/base/x.c", C + '#include "base/y.h"\n#include "wire/z.h"\n',
                    (3, "layer"))

    def test_layer_pure_module_sees_no_io(self):
        self.expect("runtime/stream/x.c", C + '#include "base/y.h"\n#include "env/env.h"\n'
                    '#include "wire/z.h"\n', (3, "layer"))

    def test_layer_runtime_sees_no_agent(self):
        self.expect("runtime/peer/x.c", C + '#include "agents/cli.h"\n', (2, "layer"))

    def test_layer_plugin_sees_public_headers_only(self):
        self.write("plugins/tunnel/own.h", header("SN_PLUGINS_TUNNEL_OWN_H"))
        self.expect("plugins/tunnel/x.c", C + '#include "own.h"\n#include "base/buf.h"\n'
                    '#include "sennit/err.h"\n', (3, "layer"))
        self.expect("plugins/tunnel/x.c", C + '#include "../relay/x.h"\n', (2, "layer"))

    def test_layer_public_header_sees_public_headers_only(self):
        self.write("runtime/base/y.h", header("SN_BASE_Y_H"))
        self.write("runtime/include/sennit/y.h", header("SN_Y_H"))
        self.expect("runtime/include/sennit/x.h",
                    header("SN_X_H", '#include "base/y.h"\n#include "sennit/y.h"\n'
                           "typedef int sn_z;\n"), (5, "layer"))

    def test_header_of_a_library(self):
        for path, name in (("link/other.c", "nng/nng.h"), ("wire/x.c", "openssl/evp.h"),
                           ("carrier/x.c", "openssl/ssl.h"), ("mesh/x.c", "yaml.h"),
                           ("crypto/x.c", "msgpack.h"), ("stream/x.c", "sodium.h"),
                           ("base/x.c", "xxhash.h"), ("actor/x.c", "pthread.h")):
            self.expect("runtime/" + path, "%s#include <%s>\n" % (C, name), (2, "header"))
        self.expect("runtime/carrier/carrier_tls.c", C + "#include <openssl/ssl.h>\n")

    # --- calls ---

    def test_call_is_found(self):
        for call in ("clock_gettime(0, 0);", "x = rand();", "if (x) read(x, 0, 0);",
                     "return (void)close(x);", "free(0);", "abort();", "nng_close(x);",
                     "printf(\"\");", "x = epoll_create1(0);", "pthread_mutex_t lock;",
                     "x = *getenv(\"A\");", "strcpy(0, 0);", "do fork();\n    while (0);"):
            self.expect("runtime/wire/x.c", self.body(call), (4, "call"))

    def test_call_unsafe_is_found_even_in_env_and_tests(self):
        for path in ("runtime/env/x.c", "tests/x.c", "agents/x.c"):
            self.expect(path, self.body("strtok(0, 0);"), (4, "call"))

    def test_call_in_a_macro_is_found(self):
        self.expect("runtime/wire/x.c", C + "#define NOW() time(NULL)\n", (2, "call"))
        self.expect("runtime/wire/x.c", C + "#define A(x) \\\n    time(x)\n", (3, "call"))

    def test_call_through_a_table_or_of_our_own_is_none(self):
        self.expect("runtime/wire/x.c", self.body(
            "io->read(x);", "io.open(x);", "sn_close(x);", "t = (struct t){.write = f};",
            "/* time() */", "x = \"socket(\";", "x = 'a'; // rand()"))
        self.expect("runtime/wire/x.c", C + "static enum sn_err open(int x)\n{\n    return x;\n}\n\n"
                    "int sn_f(void)\n{\n    return open(1);\n}\n")
        self.expect("runtime/wire/x.h", header(
            "SN_WIRE_X_H", "struct sn_io {\n    int (*read)(void *self);\n    int close;\n};\n"))

    def test_call_in_cxx_guarded_block_counts_as_file_scope(self):
        self.expect("runtime/wire/x.c", C + "extern \"C\" {\nstatic int poll(int x)\n{\n"
                    "    return x;\n}\n}\n\nint sn_f(void)\n{\n    return poll(1);\n}\n")

    # --- exceptions ---

    def test_allow_on_the_line_and_above(self):
        self.expect("runtime/wire/x.c", self.body(
            "x = time(0); /* tidy: allow time: a reason */",
            "/* tidy: allow rand: a reason\n     * on two lines */", "x = rand();"))
        self.expect("runtime/actor/x.c",
                    C + "#include <pthread.h> /* tidy: allow pthread.h: a reason */\n")

    def test_allow_of_another_word_does_not_help(self):
        self.expect("runtime/wire/x.c", self.body("x = time(0); /* tidy: allow rand: reason */"),
                    (4, "allow"), (4, "call"))

    def test_allow_needs_a_reason_and_a_purpose(self):
        self.expect("runtime/wire/x.c", self.body("/* tidy: allow time: */", "x = 1;"),
                    (4, "allow"))
        self.expect("runtime/wire/x.c", self.body("x = 1; /* tidy: allow time: reason */"),
                    (4, "allow"))

    # --- text ---

    def test_spdx(self):
        self.expect("runtime/wire/x.c", "int sn_x;\n", (1, "spdx"))
        self.expect("config/x.yaml", "a: 1\n", (1, "spdx"))
        self.expect("tools/x", "#!/bin/sh\ntrue\n", (2, "spdx"))
        self.expect("runtime/CMakeLists.txt", "project(x)\n", (1, "spdx"))
        self.expect("agents/x.h.in", "#define X @X@\n", (1, "spdx"))

    def test_guard(self):
        self.expect("runtime/wire/x.h", header("SN_X_H"), (2, "guard"))
        self.expect("runtime/include/sennit/x.h", header("SN_INCLUDE_SENNIT_X_H"), (2, "guard"))
        self.expect("runtime/wire/x.h", C + "int sn_x(void);\n", (1, "guard"))

    def test_standalone(self):
        self.expect("runtime/wire/x.h", header("SN_WIRE_X_H", "size_t sn_x(void);\n"),
                    (5, "standalone"), options=())

    def test_standalone_public_header_finds_no_private_one(self):
        self.write("runtime/base/y.h", header("SN_BASE_Y_H"))
        self.expect("runtime/include/sennit/x.h", header("SN_X_H", '#include "base/y.h"\n'),
                    (5, "layer"), (5, "standalone"), (5, "standalone"), options=())

    def test_standalone_cxx_for_public_headers_only(self):
        body = "int sn_x(int class);\n"
        self.expect("runtime/wire/x.h", header("SN_WIRE_X_H", body), options=())
        self.expect("runtime/include/sennit/x.h", header("SN_X_H", body), (5, "standalone"),
                    options=())

    def test_function_size(self):
        lines = ["x = %d;" % i for i in range(67)]
        self.expect("runtime/wire/x.c", self.body(*lines))
        self.expect("runtime/wire/x.c", self.body(*lines, "x = 0;"), (2, "function-size"))
        self.expect("runtime/wire/x.c", self.body(
            *lines, "x = 0;", before="/* tidy: allow function-size: one table */\n"))
        self.expect("runtime/wire/x.c", C + "static const int table[] = {\n" +
                    "".join("    %d,\n" % i for i in range(100)) + "};\n")

    def test_file_size(self):
        self.expect("runtime/wire/x.c", C + "extern int sn_x;\n" * 1499)
        self.expect("runtime/wire/x.c", C + "extern int sn_x;\n" * 1500, (1, "file-size"))
        self.expect("runtime/wire/x.c", C + "/* tidy: allow file-size: a table */\n" +
                    "extern int sn_x;\n" * 1500)

    def test_unfinished(self):
        self.expect("runtime/wire/x.c", C + "/* %s: later */\n" % MARK, (2, "todo"))
        self.expect("tools/x.py", HASH + "# %s later\n" % MARK, (2, "todo"))

    def test_long(self):
        self.expect("runtime/wire/x.c", self.body("/* %s */" % ("x" * 120), "x = 0;"), (4, "long"))

    def test_space(self):
        self.expect("config/x.yaml", HASH + "a: 1 \n", (2, "space"))
        self.expect("config/x.yaml", HASH + "a:\t1\n", (2, "space"))
        self.expect("config/x.yaml", HASH + "a: 1", (2, "space"))
        self.expect("config/x.yaml", HASH + "a: 1\n\n", (4, "space"))

    def test_space_leaves_corpora_and_vectors_alone(self):
        self.write("tests/fuzz/corpus/x/a.yaml", "a:\t \n\n")
        self.write("tests/vectors/x.txt", "a\t")
        self.assertEqual(self.tidy("--quick"), [])

    def test_format(self):
        self.expect("runtime/wire/x.c", C + "int  sn_x;\nint  sn_y;\n", (2, "format"), options=())

    def test_fix_repairs_what_it_can(self):
        self.write("runtime/wire/x.h", header("SN_WRONG_H").replace(C, "").replace("int ", "int  "))
        self.write("config/x.yaml", "a: 1 \n\n")
        self.write("runtime/wire/x.c", C + "int sn_x; \nvoid sn_f(void) { sn_x = 1; }")
        self.assertEqual(self.tidy("--fix"), [])
        self.assertEqual(self.tidy(), [])
        self.assertEqual(self.read("runtime/wire/x.h"), header("SN_WIRE_X_H"))
        self.assertEqual(self.read("config/x.yaml"), HASH + "a: 1\n")

    def test_command_line(self):
        self.write("runtime/wire/x.c", self.body("free(0);"))
        command = [sys.executable, "-B", TIDY, "--root", self.root]
        done = subprocess.run(command + ["--quick"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertTrue(done.stdout.startswith("runtime/wire/x.c:4: call: free: "), done.stdout)
        self.assertEqual(subprocess.run(command + ["--bogus"], capture_output=True,
                                        check=False).returncode, 2)

    def test_fix_does_not_hide_what_it_cannot(self):
        self.write("runtime/wire/x.c", self.body("free(0);"))
        self.assertEqual(self.tidy("--fix"), [("runtime/wire/x.c", 4, "call")])


if __name__ == "__main__":
    if not TIDY:
        sys.exit(__doc__)
    if not (shutil.which("clang-format-14") and shutil.which("clang-14")):
        print("skipped: needs clang-format-14 and clang-14")
        sys.exit(77)
    tidy = load(TIDY)
    unittest.main(argv=sys.argv[:1])
