"""Reading a page that was made, as a browser would."""

from html.parser import HTMLParser

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Collects tags, attributes and words, and whether tags close in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words, self.wrong = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def having(self, name, value=None):
        return [attrs for _, attrs in self.tags if name in attrs and value in (None, attrs[name])]
