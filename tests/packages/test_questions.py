"""Questions at a terminal, and Ctrl-C while they wait for an answer."""
import os
import pty
import signal
import subprocess
import termios
import time
import unittest

from store_home import BINARY, StoreTest

INTERRUPTED = 130


class QuestionTest(StoreTest):
    def ask(self, *arguments, environment=None):
        """A program on a terminal of its own; its output is read with `read_until`."""
        self.terminal, self.its_end = pty.openpty()
        self.addCleanup(os.close, self.terminal)
        self.addCleanup(os.close, self.its_end)
        self.said = ""
        program = subprocess.Popen([BINARY, *arguments], env={**self.environment, "TERM": "xterm", **(environment or {})},
                                   cwd=self.home, stdin=self.its_end, stdout=self.its_end, stderr=self.its_end)

        def end():
            program.kill()
            program.wait()
        self.addCleanup(end)
        return program

    def read_until(self, text):
        end = time.monotonic() + 60
        os.set_blocking(self.terminal, False)
        while True:
            try:
                self.said += os.read(self.terminal, 1 << 20).decode()
            except BlockingIOError:
                time.sleep(0.02)
            if text in self.said:
                return
            self.assertLess(time.monotonic(), end, f"never came: {text!r} in {self.said!r}")

    def echoes(self):
        return bool(termios.tcgetattr(self.its_end)[3] & termios.ECHO)

    def test_interrupted_login_leaves_the_terminal_as_it_was(self):
        login = self.ask("login", environment={"HF_TOKEN": ""})
        self.read_until("Token: ")
        end = time.monotonic() + 10
        while self.echoes() and time.monotonic() < end:
            time.sleep(0.01)
        self.assertFalse(self.echoes())
        login.send_signal(signal.SIGINT)
        self.assertEqual(login.wait(30), INTERRUPTED)
        self.assertTrue(self.echoes())

    def test_token_that_is_typed(self):
        login = self.ask("login", environment={"HF_TOKEN": ""})
        self.read_until("Token: ")
        os.write(self.terminal, b"hf_read\n")
        self.read_until("Logged in as reader")
        self.assertEqual(login.wait(30), 0)
        self.assertNotIn("hf_read", self.said)
        self.assertTrue(self.echoes())

    def test_license_is_asked(self):
        pull = self.ask("pull", "org/my-dit", "--with-weights")
        self.read_until("the weights org/W come under mit. Do you accept it? [y/N] ")
        time.sleep(0.4)  # some frames of what is alive
        self.read_until("")
        self.assertTrue(self.said.endswith("[y/N] "), self.said)
        os.write(self.terminal, b"y\n")
        self.read_until("pulled org/my-dit")
        self.assertEqual(pull.wait(60), 0)
        # What was asked and answered is not wiped away with the rows.
        self.assertNotIn("\033[1A", self.said.split("[y/N] ")[1].split("\n")[0])

    def test_license_that_is_refused(self):
        pull = self.ask("pull", "org/my-dit", "--with-weights")
        self.read_until("[y/N] ")
        os.write(self.terminal, b"\n")
        self.assertEqual(pull.wait(60), 7)
        self.assertFalse((self.home / ".cache/huggingface/hub/models--org--W/blobs").exists())

    def test_license_and_an_interrupt(self):
        for stop in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(stop):
                pull = self.ask("pull", "org/my-dit", "--with-weights")
                self.read_until("[y/N] ")
                pull.send_signal(stop)
                self.assertEqual(pull.wait(30), 128 + stop)
                self.assertTrue(self.echoes())

    def test_dumb_terminal_gets_lines_alone(self):
        pull = self.ask("pull", "org/my-dit", environment={"TERM": "dumb"})
        self.read_until("→ sightline serve org/my-dit")
        self.assertEqual(pull.wait(30), 0)
        self.assertIn("✓ downloading the image", self.said)
        self.assertNotIn("\x1b", self.said)

    def test_removing_everything(self):
        self.output_of("pull", "org/my-dit")
        remove = self.ask("rm", "--all")
        self.read_until("Remove 1 package(s)? [y/N] ")
        remove.send_signal(signal.SIGINT)
        self.assertEqual(remove.wait(30), INTERRUPTED)
        self.assertEqual(list(self.index), ["org/my-dit"])


if __name__ == "__main__":
    unittest.main()
