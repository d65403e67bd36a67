"""PPTX, through python-pptx: a slide is a page, its title a heading."""

from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from heddle.corpus.document import Document
from heddle.corpus.parsing.archive import missing_extra, read_archive, unreadable_as_input_error
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.parsing.text_builder import TextBuilder

GROUPS_MAX: Final = 20  # of shapes in each other


def parse_pptx(path: Path, limits: ParseLimits) -> Iterator[Document]:
    """Give the file as one document, with the notes of its slides.

    Raises: InputError: it is missing, too large, a bomb, encrypted or damaged, or python-pptx is
        not installed.
    """
    try:
        from pptx import Presentation  # late: only those who index PPTX pay for it
    except ImportError as error:
        raise missing_extra(path, "python-pptx") from error
    content = read_archive(path, limits)
    with unreadable_as_input_error(path):
        slides = Presentation(BytesIO(content))
        builder = TextBuilder(path, limits)
        for slide in slides.slides:
            _add_slide(builder, slide)
        document = builder.document(slides.core_properties.title or "")
    yield document


def _add_slide(builder: TextBuilder, slide: Any) -> None:  # noqa: ANN401 - python-pptx has no types
    builder.begin_page()
    title = slide.shapes.title
    if title is not None and title.has_text_frame:
        builder.add_heading(1, title.text_frame.text)
    own = title.shape_id if title is not None else None
    for shape in _flat(slide.shapes):
        if shape.shape_id != own:
            _add_shape(builder, shape)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        builder.add(slide.notes_slide.notes_text_frame.text)


def _flat(shapes: Iterable[Any], depth: int = 0) -> Iterator[Any]:
    for shape in shapes:
        if hasattr(shape, "shapes") and depth < GROUPS_MAX:
            yield from _flat(shape.shapes, depth + 1)
        else:
            yield shape


def _add_shape(builder: TextBuilder, shape: Any) -> None:  # noqa: ANN401 - python-pptx has no types
    if shape.has_text_frame:
        builder.add(shape.text_frame.text)
    elif getattr(shape, "has_table", False):
        for row in shape.table.rows:
            builder.add_row([cell.text for cell in row.cells])
